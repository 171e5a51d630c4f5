"""Whether the checkpoints of a run, and the records of its steps, are whole."""

from __future__ import annotations

from pathlib import Path

from docagent_rl.checkpoints.inspection import State, inspect
from docagent_rl.checkpoints.layout import (
    TRACKER,
    numbered_folders,
    read_tracker,
    step_folder,
    step_folders,
    step_of,
)
from docagent_rl.checkpoints.manifest import CheckpointCheck
from docagent_rl.documents.audit import Audit, Damage

CHECKPOINTS = "checkpoints"
_RECORDS = {"trajectories": "jsonl", "metrics": "json"}


def has_checkpoints(path: Path) -> bool:
    """Whether a folder is a run, its folder of checkpoints, or one of these."""
    if step_of(path) is not None:
        return path.is_dir()
    root = _root(path)
    return bool(step_folders(root)) or (root / TRACKER).is_file()


def audit_checkpoints(path: Path) -> Audit:
    """Read every file of checkpoints and compare it with its checksum.

    Args:
        path: a run, its folder of checkpoints, or one of these. Of a run, every step from the first that is
            recorded to its latest checkpoint has to have its trajectories and its metrics too.
    """
    path = path.absolute()
    if step_of(path) is not None:
        return _audit([path])
    root = _root(path)
    audit = _audit(step_folders(root))
    audit.damages += _tracker_damage(root)
    if root != path:
        audit.damages += _missing_records(path, root)
    return audit


def _root(path: Path) -> Path:
    return path / CHECKPOINTS if (path / CHECKPOINTS).is_dir() else path


def _audit(folders: list[Path]) -> Audit:
    audit = Audit(f"{len(folders)} checkpoint{'s' if len(folders) != 1 else ''}")
    for folder in folders:
        verdict = inspect(folder, CheckpointCheck.FULL)
        audit.unsealed += verdict.state is State.UNSEALED
        if not verdict.usable:
            unfinished = "not finished, or retired: " if verdict.state is State.UNFINISHED else ""
            audit.damages.append(Damage(folder, unfinished + verdict.reason))
    return audit


def _tracker_damage(root: Path) -> list[Damage]:
    path = root / TRACKER
    try:
        step = read_tracker(root)
    except ValueError as error:
        return [Damage(path, str(error))]
    if step is None:
        return [Damage(path, "is missing: it names the latest checkpoint")]
    if not step_folder(root, step).is_dir():
        return [Damage(path, f"names step {step}, of which there is no checkpoint")]
    return []


def _missing_records(run_dir: Path, root: Path) -> list[Damage]:
    recorded = [int(p.stem) for p in run_dir.glob("trajectories/*.jsonl") if p.stem.isdecimal()]
    last = max((step for step, _ in numbered_folders(root)), default=0)
    paths = (
        run_dir / folder / f"{step}.{suffix}"
        for step in range(min(recorded, default=1), last + 1)
        for folder, suffix in _RECORDS.items()
    )
    return [Damage(p, f"is missing: step {p.stem} has been trained") for p in paths if not p.is_file()]
