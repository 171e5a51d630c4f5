import json
import math
from statistics import fmean, stdev

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.envs.outcome import Outcome
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.training.trainer.archive import write_metrics, write_trajectories
from learning.choices import Arm, Estimator
from learning.plan import RunKey
from learning.results import RunResult, Scores, is_complete, read_results, read_run, write_results
from learning.statistics import over_seeds
from learning.summary import summarise

KEY = RunKey(Estimator.GRPO, Arm.REWARD, 0)


def trajectory(part, number, right):
    sample = {"question_id": f"{part}-{number}", "dataset": f"numbers_{part}"}
    return Trajectory(
        *(f"{part}{number}", 0, 0, "val", sample, "vrag_rl", Status.FINISHED.value),
        reward=0.2 + 0.8 * right,
        outcome=Outcome.of(float(right)),
    )


@pytest.fixture
def run_dir(tmp_path):
    for step, right in ((0, 2), (2, 5)):
        trajectories = [trajectory("held_out", n, n < right) for n in range(6)]
        trajectories += [trajectory("blank", n, False) for n in range(6)]
        write_trajectories(tmp_path, step, trajectories, validation=True)
    for step, reward in ((1, 0.3), (2, 0.4)):
        write_metrics(tmp_path, step, {"docagent/reward/total": reward, "timing_s/step": 4.5})
    return tmp_path


def test_a_run_is_read_off_its_files_and_its_result_survives_one(run_dir, tmp_path):
    result = read_run(run_dir, KEY, steps=2)
    assert (result.before.right, result.after.right) == ((1, 1, 0, 0, 0, 0), (1, 1, 1, 1, 1, 0))
    means = (result.before.mean, result.gain, result.after.accuracy, result.blank_after.accuracy)
    assert means == pytest.approx(((2 * 1.0 + 4 * 0.2) / 6, 3 * 0.8 / 6, 5 / 6, 0))
    assert (result.curve, result.seconds) == ((0.3, 0.4), 9.0)
    assert [is_complete(run_dir, steps) for steps in (2, 3)] == [True, False]
    assert read_results(write_results([result, result], tmp_path / "results.json")) == [
        result,
        result,
    ]
    (tmp_path / "one.json").write_text(result.to_json())
    assert read_results(tmp_path / "one.json") == [result]


def test_files_that_are_missing_or_wrong_are_named(run_dir, tmp_path):
    with pytest.raises(UserError, match=r"val-3\.jsonl"):
        read_run(run_dir, KEY, steps=3)
    (run_dir / "metrics" / "2.json").unlink()
    with pytest.raises(UserError, match=r"2\.json"):
        read_run(run_dir, KEY, steps=2)
    broken = trajectory("held_out", 0, True)
    broken.status = Status.MASKED.value
    write_trajectories(run_dir, 2, [broken, trajectory("blank", 0, False)], validation=True)
    with pytest.raises(UserError, match="held_out-0"):
        read_run(run_dir, KEY, steps=2)
    (tmp_path / "bad.json").write_text(json.dumps([{"estimator": "grpo"}]))
    with pytest.raises(UserError, match=r"bad\.json.*'before'"):
        read_results(tmp_path / "bad.json")


def made(estimator, arm, seed, before, after, questions=100):
    def scores(share):
        right = tuple(float(n < share * questions) for n in range(questions))
        return Scores(tuple(0.2 + 0.8 * r for r in right), right)

    measured = map(scores, (before, after, 0.01, 0.02))
    return RunResult(estimator, arm, seed, 1, 1.0, *measured, (0.5,))


def test_three_seeds_that_gain_are_learning():
    runs = [made(Estimator.SPO, Arm.REWARD, seed, 0.3, 0.7 + 0.02 * seed) for seed in range(3)]
    runs += [made(Estimator.SPO, Arm.SHUFFLED, seed, 0.3, 0.29 + 0.01 * seed) for seed in range(3)]
    learnt, control = summarise(runs)
    assert (learnt.estimator, learnt.arm, learnt.seeds) == (Estimator.SPO, Arm.REWARD, (0, 1, 2))
    assert (learnt.gain.mean, learnt.blank.mean) == pytest.approx((0.8 * 0.42, 0.02))
    assert (control.arm, learnt.learns, control.learns) == (Arm.SHUFFLED, True, False)


def test_few_questions_and_seeds_that_disagree_are_not_learning():
    (few,) = summarise([made(Estimator.GRPO, Arm.REWARD, 0, 0.3, 0.32, questions=50)])
    assert few.gain.mean > 0
    ends = enumerate((0.35, 0.9, 0.36))
    (apart,) = summarise([made(Estimator.GRPO, Arm.REWARD, seed, 0.3, end) for seed, end in ends])
    assert (apart.gain.above_zero, few.learns, apart.learns) == (False, False, False)


@pytest.mark.parametrize(
    ("seeds", "quantile"),
    [(2, 12.706205), (3, 4.302653), (11, 2.228139), (31, 2.042272), (121, 1.979930)],
)
def test_the_quantile_is_students_for_any_number_of_seeds(seeds, quantile):
    """The values come from printed tables of Student's t."""
    values = [float(number) for number in range(seeds)]
    found = over_seeds(values)
    half = quantile * stdev(values) / math.sqrt(seeds)
    mean = fmean(values)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (mean, mean - half, mean + half), rel=1e-6
    )
    assert found.above_zero is (mean > half)
