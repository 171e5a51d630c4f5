"""Read and write the result of a unit, a JSON file with all that tables and pictures need."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from proof.scores import Scores
from proof.tasks import get_task
from proof.tasks.base import Part
from proof.unit import Unit
from proof.workspace import settings_digest

RESULTS = Path(__file__).parent / "results"
"""The folder of the committed results, with one folder for each system."""
AGAIN = "again"
"""The folder in that of a system with results of units that a later commit measured again."""
FLOORS = "floors.json"
"""The file in the folder of a system with the floors and the ceiling of its task."""

STEP_REWARD = "docagent/reward/total"
STEP_SECONDS = "timing_s/step"
_SCORES = ("before", "after", "blank_before", "blank_after")


@dataclass(frozen=True, slots=True)
class UnitResult:
    """The result of a unit.

    Args:
        system: the system's name in the registry.
        arm: `reward`, `shuffled` or the name of an ablation.
        seed: the seed of weights, data order and sampling.
        steps: the number of steps of reinforcement learning.
        task: a digest of the documents and questions.
        settings: a digest of the recipe's overlay and of the sizes of the task.
        commit: the commit of the code that measured the unit, its first ten characters.
        warm_start: how the warm start was chosen.
        seconds: wall-clock time of the trainer's steps, without start and validation.
        before: scores of the warm start on held-out questions.
        after: scores on the same questions after training.
        blank_before: scores of the warm start on held-out questions with blank pages.
        blank_after: scores on the same questions after training.
        curve: the mean reward of the sampled trajectories of each step.
    """

    system: str
    arm: str
    seed: int
    steps: int
    task: str
    settings: str
    commit: str
    warm_start: Mapping[str, Any]
    seconds: float
    before: Scores
    after: Scores
    blank_before: Scores
    blank_after: Scores
    curve: tuple[float, ...]

    @property
    def gain(self) -> float:
        """The share of right answers after training minus that before."""
        return self.after.accuracy - self.before.accuracy

    @property
    def current(self) -> bool:
        """Return whether the unit was measured with the current settings of its task."""
        task = get_task(self.system)
        return self.settings == settings_digest(task) and task.sizes.chose(self.warm_start)

    def to_json(self) -> str:
        """Return the result as JSON with one field in each line, which `read_result` reads."""
        lines = (
            f" {json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(self).items()
        )
        return "{\n" + ",\n".join(lines) + "\n}\n"


def result_path(unit: Unit, folder: Path = RESULTS) -> Path:
    """Return the path of a unit's result."""
    return folder / unit.system / f"{unit.name}.json"


def read_result(path: Path) -> UnitResult:
    """Read a result.

    Raises:
        UserError: the file does not hold the result of a unit.
    """
    try:
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        data.update({name: Scores.from_dict(data[name]) for name in _SCORES})
        data["curve"] = tuple(map(float, data["curve"]))
        return UnitResult(**data)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path}: not the result of a unit: {type(error).__name__}: {error}; measure the unit "
            "again"
        ) from error


def is_measured(unit: Unit, folder: Path = RESULTS) -> bool:
    """Return whether a unit has a result for the current settings."""
    path = result_path(unit, folder)
    return path.is_file() and read_result(path).current


def read_results(folder: Path = RESULTS) -> list[UnitResult]:
    """Read all results of a folder, sorted by system, arm and seed."""
    return [read_result(path) for path in sorted(folder.glob("*/*-[0-9]*.json"))]


def read_again(folder: Path = RESULTS) -> list[UnitResult]:
    """Read the second results of units that were measured again, sorted by system, arm and seed."""
    return [read_result(path) for path in sorted(folder.glob(f"*/{AGAIN}/*-[0-9]*.json"))]


def write_result(result: UnitResult, folder: Path = RESULTS) -> Path:
    """Write a result to its path."""
    unit = Unit(result.system, result.arm, result.seed)
    return atomic_write(result_path(unit, folder), result.to_json())


def write_again(result: UnitResult, folder: Path = RESULTS) -> Path:
    """Write the second result of a unit, and leave the first one unchanged."""
    name = Unit(result.system, result.arm, result.seed).name
    return atomic_write(folder / result.system / AGAIN / f"{name}.json", result.to_json())


def is_complete(run_dir: Path, steps: int) -> bool:
    """Return whether a run has written its validation after the last step."""
    return _validation(run_dir, steps).is_file()


def read_run(
    run_dir: Path,
    unit: Unit,
    *,
    task: str,
    settings: str,
    commit: str,
    warm_start: Mapping[str, Any],
) -> UnitResult:
    """Read the result of a unit from the files of its run.

    It scores the trajectories of the trainer's own validations. They are the same, token by token,
    as those of `docagent-rl eval`, which would have to start vLLM again.

    Raises:
        UserError: trajectories or metrics of a step are missing.
    """
    first = _by_part(read_trajectories(_validation(run_dir, 0)))
    last = _by_part(read_trajectories(_validation(run_dir, unit.steps)))
    numbers = [_metrics(run_dir, step) for step in range(1, unit.steps + 1)]
    return UnitResult(
        system=unit.system,
        arm=unit.arm,
        seed=unit.seed,
        steps=unit.steps,
        task=task,
        settings=settings,
        commit=commit,
        warm_start=warm_start,
        seconds=round(sum(each[STEP_SECONDS] for each in numbers), 1),
        before=first[Part.HELD_OUT],
        after=last[Part.HELD_OUT],
        blank_before=first[Part.BLANK],
        blank_after=last[Part.BLANK],
        curve=tuple(round(each[STEP_REWARD], 4) for each in numbers),
    )


def _by_part(trajectories: Iterable[Trajectory]) -> dict[Part, Scores]:
    by_part: dict[str, list[Trajectory]] = {}
    for trajectory in trajectories:
        by_part.setdefault(trajectory.sample["dataset"], []).append(trajectory)
    wanted = (Part.HELD_OUT, Part.BLANK)
    if missing := [part for part in wanted if part.dataset not in by_part]:
        raise UserError(f"the validation has no question of the dataset {missing[0].dataset}")
    return {part: Scores.of(by_part[part.dataset]) for part in wanted}


def _validation(run_dir: Path, step: int) -> Path:
    return run_dir / "trajectories" / f"val-{step}.jsonl"


def _metrics(run_dir: Path, step: int) -> dict[str, float]:
    path = run_dir / "metrics" / f"{step}.json"
    try:
        numbers = json.loads(path.read_text(encoding="utf-8"))
        return {name: float(numbers[name]) for name in (STEP_REWARD, STEP_SECONDS)}
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: cannot read the step's reward and time: {error}") from error
