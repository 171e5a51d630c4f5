"""What an evaluation came to."""

from docagent_rl.eval.summary import summary_table, tally_of, unplayed_table
from docagent_rl.play.player import new_trajectory
from docagent_rl.records.record import Record, Split
from docagent_rl.rollout.trajectory import MaskReason, Status


def session(uid, reward=None, why=""):
    trajectory = new_trajectory(Record(uid, "own", Split.TEST, "d", "Where?", ("there",)), 0, "none")
    if reward is None:
        trajectory.status, trajectory.end, trajectory.error = (
            Status.MASKED.value,
            MaskReason.SAMPLE.value,
            why,
        )
        trajectory.reward = 1.0
    else:
        trajectory.status, trajectory.reward = Status.FINISHED.value, reward
        trajectory.metrics = {"reward/outcome": reward, "turns": 3.0}
    return trajectory


def cells(table):
    return [list(map(str, column.cells)) for column in table.columns]


def test_what_could_not_be_played_counts_as_wrong():
    tally = tally_of([session("a", 1.0), session("b", 0.5), session("c", why="gone"), session("d", 0.5)])
    names, means = cells(summary_table(tally))
    assert (tally.mean, names, means) == (
        0.5,
        ["reward", "finished", "outcome"],
        ["0.5000", "0.7500", "0.5000"],
    )


def test_reasons_are_listed_and_harmless():
    table = unplayed_table(tally_of([session(f"q{n}", why="bad [red]\x1b[2J") for n in range(12)]))
    assert "12 sample" in str(table.title)
    questions, reasons = cells(table)
    assert questions == [*(f"q{n}" for n in range(10)), ""]
    assert all("[red]" in reason and "\x1b" not in reason for reason in reasons[:10])
    assert unplayed_table(tally_of([session("a", 1.0)])) is None
