"""Files of a run: trajectories and metrics, one file a step, so that a resumed run loses none."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, SupportsFloat

from docagent_rl.io import atomic_write
from docagent_rl.rollout.trajectory import Trajectory

Metrics = Mapping[str, Any]


def trajectory_file(run_dir: Path, step: int, *, validation: bool = False) -> Path:
    """Where the trajectories of a step are: `<run>/trajectories/<step>.jsonl`, `val-<step>.jsonl`."""
    return run_dir / "trajectories" / f"{'val-' if validation else ''}{step}.jsonl"


def write_trajectories(
    run_dir: Path, step: int, trajectories: Sequence[Trajectory], *, validation: bool = False
) -> Path:
    """Write the sessions of a step, ordered by question and session; a repeated step replaces its file."""
    ordered = sorted(trajectories, key=lambda t: (str(t.record.get("question_id")), t.uid, t.session))
    path = trajectory_file(run_dir, step, validation=validation)
    return atomic_write(path, "".join(t.to_json() + "\n" for t in ordered))


def write_metrics(run_dir: Path, step: int, metrics: Metrics, *, validation: bool = False) -> Path:
    """Write the numbers of a step to `<run>/metrics/<step>.json`, `val-<step>.json`."""
    numbers = {k: float(v) for k, v in sorted(metrics.items()) if isinstance(v, SupportsFloat)}
    path = run_dir / "metrics" / f"{'val-' if validation else ''}{step}.json"
    return atomic_write(path, json.dumps(numbers, indent=1) + "\n")


def attach_trainer_log_probs(trajectory: Trajectory, log_probs: Sequence[float], *, row: int = 0) -> None:
    """Split the trainer's log-probs of a row's sampled tokens over its turns.

    Args:
        trajectory: the session's record.
        row: which of the session's rows.
        log_probs: one value for each sampled token of the row, in order.

    Raises:
        ValueError: the numbers of tokens differ, so that row and record are not of the same session.
    """
    turns = [turn for turn in trajectory.turns if turn.row == row]
    sampled = sum(len(turn.token_ids) for turn in turns)
    if sampled != len(log_probs):
        raise ValueError(
            f"session {trajectory.uid}_{trajectory.session} sampled {sampled} tokens, "
            f"its row holds {len(log_probs)}"
        )
    position = 0
    for turn in turns:
        turn.trainer_log_probs = list(log_probs[position : position + len(turn.token_ids)])
        position += len(turn.token_ids)
