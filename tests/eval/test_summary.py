"""What an evaluation came to."""

import io

import pytest
from rich.console import Console

from docagent_rl.eval.summary import summary_table, tally_of, unplayed_table
from docagent_rl.play.player import new_trajectory
from docagent_rl.records.record import Record, Split
from docagent_rl.rollout.trajectory import MaskReason, Status


def session(uid, reward=None, why=""):
    sample = Record(uid, "own", Split.TEST, "d", "Where?", ("there",))
    trajectory = new_trajectory(sample, 0, "none")
    if reward is None:
        trajectory.status, trajectory.end, trajectory.error = (
            Status.MASKED.value,
            MaskReason.SAMPLE.value,
            why,
        )
        trajectory.reward = 1.0
        return trajectory
    trajectory.status, trajectory.reward = Status.FINISHED.value, reward
    trajectory.metrics = {"reward/outcome": reward, "turns": 3.0}
    return trajectory


def printed(table):
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(table)
    return " ".join(console.export_text().split())


def test_what_could_not_be_played_counts_as_wrong():
    tally = tally_of(
        [session("a", 1.0), session("b", 0.5), session("c", why="no such document"), session("d", 0.5)]
    )
    assert tally.mean == pytest.approx(0.5)
    text = printed(summary_table(tally))
    assert "outcome" in text
    assert "0.5000" in text
    assert "0.7500" in text  # finished


def test_reasons_are_listed_and_harmless():
    tally = tally_of([session(f"q{n}", why="bad [red]\x1b[2J") for n in range(12)])
    text = printed(unplayed_table(tally))
    assert "12 sample" in text
    assert "[red]" in text
    assert "\x1b" not in text
    assert "q9" in text
    assert "q10" not in text
    assert unplayed_table(tally_of([session("a", 1.0)])) is None
