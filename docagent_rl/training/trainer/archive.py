"""A run's trajectories and metrics, one file per step, so that a resumed run loses nothing."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from docagent_rl.base.seals import Seal
from docagent_rl.checkpoints.file_status import SUPERSEDED
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory

Metrics = Mapping[str, Any]

INTERRUPTED = "docagent/interrupted"
"""1 in a step's metrics from its update until its checkpoint is saved; some metrics are missing."""
_FILES_OF_STEPS = ("trajectories/*.jsonl", "metrics/*.json", "credit/*.parquet")
_STEP_IN_NAME = re.compile(r"(?:val-)?(\d+)")


def trajectory_file(run_dir: Path, step: int, *, validation: bool = False) -> Path:
    """Return the file of a step's trajectories: `<run>/trajectories/<step>.jsonl` or
    `val-<step>.jsonl`.
    """
    return run_dir / "trajectories" / f"{'val-' if validation else ''}{step}.jsonl"


def write_trajectories(
    run_dir: Path, step: int, trajectories: Sequence[Trajectory], *, validation: bool = False
) -> Path:
    """Write a step's trajectories with `write_lines`."""
    lines = ((t, [t.to_json().encode()]) for t in trajectories)
    return write_lines(run_dir, step, lines, validation=validation)


def write_lines(
    run_dir: Path,
    step: int,
    trajectories: Iterable[tuple[TrajectoryDigest | Trajectory, Iterable[bytes]]],
    *,
    validation: bool = False,
) -> Path:
    """Write the trajectories of a step, ordered by question and trajectory, and seal the file.

    A repeated step replaces its file. Each trajectory is given with the pieces of its line.
    """
    ordered = sorted(
        trajectories, key=lambda each: (str(each[0].question_id), each[0].uid, each[0].number)
    )
    pieces = (piece for _, line in ordered for piece in (*line, b"\n"))
    return Seal(run_dir).write(trajectory_file(run_dir, step, validation=validation), pieces)


def metrics_file(run_dir: Path, step: int, *, validation: bool = False) -> Path:
    """Return the file of a step's metrics."""
    return run_dir / "metrics" / f"{'val-' if validation else ''}{step}.json"


def write_metrics(run_dir: Path, step: int, metrics: Metrics, *, validation: bool = False) -> Path:
    """Write the metrics of a step to `<run>/metrics/<step>.json` or `val-<step>.json`."""
    numbers = {k: float(v) for k, v in sorted(metrics.items()) if isinstance(v, SupportsFloat)}
    path = metrics_file(run_dir, step, validation=validation)
    return Seal(run_dir).write(path, json.dumps(numbers, indent=1) + "\n")


def read_metrics(run_dir: Path, step: int, *, validation: bool = False) -> dict[str, float] | None:
    """Return the metrics of a step; None if there are none."""
    try:
        return json.loads(
            metrics_file(run_dir, step, validation=validation).read_text(encoding="utf-8")
        )
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def supersede_steps(run_dir: Path, step: int) -> Path | None:
    """Move the files of steps that a run will repeat to `<run>/superseded/<number>/`; return it.

    A killed run resumes from its last checkpoint, that of `step`, but may have trained further: the
    files of those steps do not belong to the policy that is trained now. With `step` 0 the run
    starts from the beginning, including the validation before the first step. Nothing is deleted.
    """
    superseded = []
    for pattern in _FILES_OF_STEPS:
        for path in run_dir.glob(pattern):
            found = _STEP_IN_NAME.fullmatch(path.stem)
            if found and (step == 0 or int(found[1]) > step):
                superseded.append(path)
    if not superseded:
        return None

    root = run_dir / SUPERSEDED
    folders = root.iterdir() if root.is_dir() else ()
    numbers = [int(folder.name) for folder in folders if folder.name.isdecimal()]
    target = root / str(max(numbers, default=0) + 1)
    Seal(run_dir).move({path: target / path.parent.name / path.name for path in superseded})
    return target


def turn_log_probs(
    trajectory: TrajectoryDigest, rows: Mapping[int, NDArray[np.float64]]
) -> list[NDArray[np.float64] | None]:
    """Split the trainer's log-probs by a trajectory's turns, as `filled_line` expects them.

    `rows` contains, by row number, one value per sampled token of the row, in order. Turns in other
    rows get None.

    Raises:
        ValueError: the numbers of tokens differ, so the row does not belong to the trajectory.
    """
    ends: Counter[int] = Counter()  # of the turns so far, by row
    split: list[NDArray[np.float64] | None] = []
    for turn in trajectory.turns:
        begin = ends[turn.row]
        end = begin + turn.sampled
        ends[turn.row] = end
        split.append(rows[turn.row][begin:end] if turn.row in rows else None)
    for row, values in rows.items():
        if ends[row] != len(values):
            raise ValueError(
                f"trajectory {trajectory.uid}_{trajectory.number} sampled {ends[row]} tokens, "
                f"but its row has {len(values)}"
            )
    return split
