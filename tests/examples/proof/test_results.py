import math

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.training.trainer.archive import write_metrics, write_trajectories
from proof.results import is_complete, read_result, read_run, write_result
from proof.scores import right
from proof.statistics import clustered_gain
from proof.unit import Unit
from tests.examples.proof.small import result


def trajectory(part, number, said, status=Status.FINISHED):
    names = (f"{part}-{number}", f"proof_{part}", Split.VAL, f"{part}-{number // 2}")
    sample = Sample(
        *names, "Which number?", ("73",), evidence_pages=(1,), extra={"kind": "a"}
    ).to_dict()
    info = {"action": {"kind": "answer", "text": said}, "executed": True}
    turn = TrajectoryTurn("", "end_of_turn", [], [], info=info)
    return Trajectory(
        *(f"{part}{number}", 0, 0, "val", sample, "vrag_rl", status.value),
        turns=[turn] if said else [],
        reward=0.25,
    )


@pytest.fixture
def run_dir(tmp_path):
    for step, count in ((0, 1), (2, 3)):
        trajectories = [trajectory("held_out", n, "73" if n < count else "37") for n in range(4)]
        trajectories += [trajectory("blank", n, None) for n in range(4)]
        write_trajectories(tmp_path, step, trajectories, validation=True)
    for step, reward in ((1, 0.3), (2, 0.4)):
        write_metrics(tmp_path, step, {"docagent/reward/total": reward, "timing_s/step": 4.5})
    return tmp_path


@pytest.mark.parametrize(
    ("said", "value"), [("73", 1), ("73.", 1), ("37", 0), ("73 37", 0), (None, 0)]
)
def test_an_answer_is_right_when_it_is_the_reference(said, value):
    assert right(trajectory("held_out", 0, said)) == value


def test_a_run_is_read_off_its_files(run_dir, monkeypatch):
    monkeypatch.setattr(Unit, "steps", 2)
    unit = Unit("vrag_rl", "reward", 1)
    found = read_run(run_dir, unit, task="t", settings="s", commit="c", warm_start={"step": 5})
    assert (found.before.right, found.after.right) == ((1, 0, 0, 0), (1, 1, 1, 0))
    assert found.after.documents == ("held_out-0", "held_out-0", "held_out-1", "held_out-1")
    assert (found.gain, found.blank_after.accuracy, found.curve) == (0.5, 0, (0.3, 0.4))
    assert [is_complete(run_dir, steps) for steps in (2, 3)] == [True, False]


def test_a_masked_trajectory_is_no_score(run_dir, monkeypatch):
    monkeypatch.setattr(Unit, "steps", 2)
    masked = [trajectory("held_out", 0, None, Status.MASKED), trajectory("blank", 0, None)]
    write_trajectories(run_dir, 2, masked, validation=True)
    with pytest.raises(UserError, match="held_out-0"):
        read_run(
            run_dir, Unit("vrag_rl", "reward", 1), task="t", settings="s", commit="c", warm_start={}
        )


def test_results_survive_the_file(tmp_path):
    made = result()
    path = write_result(made, tmp_path)
    assert path == tmp_path / "alden" / "reward-0.json"
    assert read_result(path) == made
    path.write_text("{}")
    with pytest.raises(UserError):
        read_result(path)


def test_questions_of_one_document_are_drawn_together():
    before, after = [0.0] * 40, [1.0, 0.0] * 20
    apart = clustered_gain(before, after, [str(number) for number in range(40)])
    # 4 documents, of which two gain in all of their questions and two in none
    together = clustered_gain(before, sorted(after), [str(number // 10) for number in range(40)])
    assert apart.mean == together.mean == 0.5
    half = 1.96 * math.sqrt(0.25 / 40)
    assert (apart.low, apart.high) == pytest.approx((0.5 - half, 0.5 + half), abs=0.02)
    assert (together.low, together.high) == (0.0, 1.0)


def test_a_document_counts_by_its_questions():
    assert clustered_gain([0, 0, 0, 0], [1, 1, 1, 0], ["a", "a", "a", "b"]).mean == 0.75
    with pytest.raises(UserError, match=r"\b2\b.*\b1\b"):
        clustered_gain([0, 0], [1], ["a", "b"])
