"""Read the result of a run: held-out rewards before and after, on real and on blank pages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from learning.choices import Arm, Estimator
from learning.plan import RunKey
from learning.task import Part

STEP_REWARD = "docagent/reward/total"
STEP_SECONDS = "timing_s/step"


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of greedy trajectories on the questions of a part, in the order of their ids.

    Args:
        reward: the reward for each question.
        right: 1 for each question whose answer is right, else 0.
    """

    reward: tuple[float, ...]
    right: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean reward."""
        return fmean(self.reward)

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return fmean(self.right)


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of one run of reinforcement learning.

    Args:
        estimator: the estimator.
        arm: the rewards on which the run trained.
        seed: the seed of everything random.
        steps: the number of steps.
        seconds: wall-clock time of the steps, without start and validation.
        before: scores of the warm start on held-out questions.
        after: scores on the same questions after training.
        blank_before: scores of the warm start on held-out questions with blank pages.
        blank_after: scores on the same questions after training.
        curve: the mean reward of the sampled trajectories of each step.
    """

    estimator: Estimator
    arm: Arm
    seed: int
    steps: int
    seconds: float
    before: Scores
    after: Scores
    blank_before: Scores
    blank_after: Scores
    curve: tuple[float, ...]

    @property
    def gain(self) -> float:
        """The mean held-out reward after training minus that before."""
        return self.after.mean - self.before.mean

    def to_json(self) -> str:
        """Return the result as JSON, which `read_results` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> RunResult:
        """Make a result from the dictionary that `dataclasses.asdict` returned.

        Raises:
            UserError: a field is missing or wrong.
        """
        try:
            scores = {name: _scores(data[name]) for name in _SCORES}
            return cls(
                estimator=Estimator(data["estimator"]),
                arm=Arm(data["arm"]),
                seed=int(data["seed"]),
                steps=int(data["steps"]),
                seconds=float(data["seconds"]),
                curve=tuple(float(value) for value in data["curve"]),
                **scores,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(f"not the result of a run: {type(error).__name__}: {error}") from error


_SCORES = ("before", "after", "blank_before", "blank_after")


def is_complete(run_dir: Path, steps: int) -> bool:
    """Return whether a run has written its validation after the last step."""
    return _validation(run_dir, steps).is_file()


def read_run(run_dir: Path, key: RunKey, *, steps: int) -> RunResult:
    """Read the result of a run from its files.

    Raises:
        UserError: trajectories or metrics of a step are missing.
    """
    first = _by_part(read_trajectories(_validation(run_dir, 0)))
    last = _by_part(read_trajectories(_validation(run_dir, steps)))
    numbers = [_metrics(run_dir, step) for step in range(1, steps + 1)]
    return RunResult(
        estimator=key.estimator,
        arm=key.arm,
        seed=key.seed,
        steps=steps,
        seconds=sum(each[STEP_SECONDS] for each in numbers),
        before=first[Part.HELD_OUT],
        after=last[Part.HELD_OUT],
        blank_before=first[Part.BLANK],
        blank_after=last[Part.BLANK],
        curve=tuple(each[STEP_REWARD] for each in numbers),
    )


def write_results(results: Sequence[RunResult], path: Path) -> Path:
    """Write all results into one file."""
    return atomic_write(path, json.dumps([asdict(result) for result in results], indent=1) + "\n")


def read_results(path: Path) -> list[RunResult]:
    """Read a file that `write_results` wrote, or one with a single `RunResult.to_json`.

    Raises:
        UserError: the file does not hold results.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read as results: {error}") from error
    try:
        return [
            RunResult.from_dict(entry) for entry in (data if isinstance(data, list) else [data])
        ]
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _by_part(trajectories: Iterable[Trajectory]) -> dict[Part, Scores]:
    by_part: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        by_part.setdefault(trajectory.sample["dataset"], []).append(trajectory)
    missing = [part for part in (Part.HELD_OUT, Part.BLANK) if part.dataset not in by_part]
    if missing:
        raise UserError(f"the validation has no question of the dataset {missing[0].dataset}")
    return {part: _measure(by_part[part.dataset]) for part in (Part.HELD_OUT, Part.BLANK)}


def _measure(trajectories: Sequence[Trajectory]) -> Scores:
    ordered = sorted(trajectories, key=lambda t: t.sample["question_id"])
    if masked := [t.sample["question_id"] for t in ordered if t.masked]:
        raise UserError(f"{len(masked)} held-out trajectories were masked, {masked[0]} among them")
    return Scores(
        tuple(round(t.reward, 6) for t in ordered), tuple(float(is_right(t)) for t in ordered)
    )


def is_right(trajectory: Trajectory) -> bool:
    """Return whether the answer of a trajectory is right."""
    return trajectory.outcome is not None and trajectory.outcome.state is OutcomeState.RIGHT


def _validation(run_dir: Path, step: int) -> Path:
    return run_dir / "trajectories" / f"val-{step}.jsonl"


def _metrics(run_dir: Path, step: int) -> dict[str, float]:
    path = run_dir / "metrics" / f"{step}.json"
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(numbers[name]) for name in (STEP_REWARD, STEP_SECONDS)}
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: cannot read the step's reward and time: {error}") from error


def _scores(data: dict[str, Any]) -> Scores:
    return Scores(tuple(map(float, data["reward"])), tuple(map(float, data["right"])))
