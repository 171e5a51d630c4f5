"""Files of a run: trajectories and metrics, one file a step, so that a resumed run loses none."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np
from numpy.typing import NDArray

from docagent_rl.base.seals import Seal
from docagent_rl.checkpoints.standing import SUPERSEDED
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory

Metrics = Mapping[str, Any]

INTERRUPTED = "docagent/interrupted"
"""1 in the numbers of a step after whose update the run ended, or is about to save: some are
missing.
"""
_OF_STEPS = ("trajectories/*.jsonl", "metrics/*.json", "credit/*.parquet")
_NAME = re.compile(r"(?:val-)?(\d+)")


def trajectory_file(run_dir: Path, step: int, *, validation: bool = False) -> Path:
    """Return the file of a step's trajectories: `<run>/trajectories/<step>.jsonl`,
    `val-<step>.jsonl`.
    """
    return run_dir / "trajectories" / f"{'val-' if validation else ''}{step}.jsonl"


def write_trajectories(
    run_dir: Path, step: int, trajectories: Sequence[Trajectory], *, validation: bool = False
) -> Path:
    """Write a step's trajectories as `write_lines` does."""
    lines = ((t, [t.to_json().encode()]) for t in trajectories)
    return write_lines(run_dir, step, lines, validation=validation)


def write_lines(
    run_dir: Path,
    step: int,
    trajectories: Iterable[tuple[TrajectoryDigest | Trajectory, Iterable[bytes]]],
    *,
    validation: bool = False,
) -> Path:
    """Write the trajectories of a step, ordered by question and trajectory, and seal them.

    A repeated step replaces its file. Each trajectory comes with the pieces of its line.
    """
    ordered = sorted(
        trajectories, key=lambda each: (str(each[0].question_id), each[0].uid, each[0].number)
    )
    pieces = (piece for _, line in ordered for piece in (*line, b"\n"))
    return Seal(run_dir).write(trajectory_file(run_dir, step, validation=validation), pieces)


def metrics_file(run_dir: Path, step: int, *, validation: bool = False) -> Path:
    """Return the file of a step's numbers."""
    return run_dir / "metrics" / f"{'val-' if validation else ''}{step}.json"


def write_metrics(run_dir: Path, step: int, metrics: Metrics, *, validation: bool = False) -> Path:
    """Write the numbers of a step to `<run>/metrics/<step>.json`, `val-<step>.json`."""
    numbers = {k: float(v) for k, v in sorted(metrics.items()) if isinstance(v, SupportsFloat)}
    path = metrics_file(run_dir, step, validation=validation)
    return Seal(run_dir).write(path, json.dumps(numbers, indent=1) + "\n")


def read_metrics(run_dir: Path, step: int, *, validation: bool = False) -> dict[str, float] | None:
    """Return the numbers of a step; None where there are none."""
    try:
        return json.loads(
            metrics_file(run_dir, step, validation=validation).read_text(encoding="utf-8")
        )
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def supersede_steps(run_dir: Path, step: int) -> Path | None:
    """Move the files of steps that a run will do again to `<run>/superseded/<number>/`, and return
    it.

    A run that was killed goes on from its last checkpoint, that of `step`, and may have trained
    further: what it left of those steps is not of the policy that is trained now. 0 is the
    beginning, with a new validation before the first step. Nothing is lost.
    """
    paths = [path for pattern in _OF_STEPS for path in run_dir.glob(pattern)]
    numbered = [(int(found[1]), path) for path in paths if (found := _NAME.fullmatch(path.stem))]
    old = [path for number, path in numbered if number > step or step == 0]
    if not old:
        return None
    root = run_dir / SUPERSEDED
    numbers = [int(p.name) for p in root.iterdir() if p.name.isdecimal()] if root.is_dir() else []
    target = root / str(max(numbers, default=0) + 1)
    Seal(run_dir).move({path: target / path.parent.name / path.name for path in old})
    return target


def turn_log_probs(
    trajectory: TrajectoryDigest, rows: Mapping[int, NDArray[np.float64]]
) -> list[NDArray[np.float64] | None]:
    """Split the trainer's log-probs over a trajectory's turns, as `filled_line` takes them.

    `rows` has one value for each sampled token of a row, in order, by the row's number; other turns
    have none.

    Raises:
        ValueError: the numbers of tokens differ, so that row and record are not of the same
            trajectory.
    """
    sampled: Counter[int] = Counter()
    split: list[NDArray[np.float64] | None] = []
    for turn in trajectory.turns:
        begin = sampled[turn.row]
        sampled[turn.row] += turn.sampled
        split.append(rows[turn.row][begin : sampled[turn.row]] if turn.row in rows else None)
    for row, values in rows.items():
        if sampled[row] != len(values):
            raise ValueError(
                f"trajectory {trajectory.uid}_{trajectory.number} sampled {sampled[row]} tokens, "
                f"its row holds {len(values)}"
            )
    return split
