"""Audits of a run: its checkpoints, and the seals beside its trajectories.

`trajectories/<step>.json` holds the number and the checksum of the trajectories of a step.
"""

import json
from pathlib import Path

from docagent_rl.base.io import atomic_write, is_sealed, seal
from docagent_rl.checkpoints.inspection import State, inspect
from docagent_rl.checkpoints.manifest import TRACKER, CheckpointCheck, step_folders, step_of
from docagent_rl.documents.audit import Audit, Damage
from docagent_rl.documents.objects import file_digest

CHECKPOINTS = "checkpoints"
_RESTORE = "take the file from a copy, or leave the step out of what you report"


def has_checkpoints(path: Path) -> bool:
    """Return whether a folder is a run, its folder of checkpoints, or one of these."""
    root = _root(path)
    return step_of(path) is not None or bool(step_folders(root)) or (root / TRACKER).is_file()


def audit_checkpoints(path: Path) -> Audit:
    """Read every file of checkpoints (a run's, a folder's, one) and compare it with its checksum."""
    path = path.absolute()
    folders = step_folders(_root(path)) if step_of(path) is None else [path]
    audit = Audit(f"{len(folders)} checkpoint{'s' if len(folders) != 1 else ''}")
    for folder in folders:
        verdict = inspect(folder, CheckpointCheck.FULL)
        audit.unsealed += verdict.state is State.UNSEALED
        if not verdict.usable:
            unfinished = "not finished, or retired: " if verdict.state is State.UNFINISHED else ""
            audit.damages.append(Damage(folder, unfinished + verdict.reason))
    return audit


def _root(path: Path) -> Path:
    return path / CHECKPOINTS if (path / CHECKPOINTS).is_dir() else path


def write_seal(archive: Path, trajectories: int, sha256: str) -> None:
    """Record what a whole file of trajectories holds."""
    content = json.dumps({"trajectories": trajectories, "sha256": sha256}, indent=1)
    atomic_write(archive.with_suffix(".json"), seal(content))


def remove_seal(archive: Path) -> None:
    """Forget what a file of trajectories held: another takes its place."""
    archive.with_suffix(".json").unlink(missing_ok=True)


def audit_archives(run_dir: Path) -> Audit:
    """Compare a run's files of trajectories with their seals."""
    archives = sorted(run_dir.glob("trajectories/*.jsonl"))
    seals = set(run_dir.glob("trajectories/*.json"))
    audit = Audit(f"{len(archives)} files of trajectories")
    for archive in archives:
        if archive.with_suffix(".json") not in seals:
            audit.unsealed += 1
        elif problem := _problem(archive):
            audit.damages.append(Damage(archive, f"{problem}; {_RESTORE}"))
    lost = sorted(seals - {archive.with_suffix(".json") for archive in archives})
    audit.damages += [Damage(each.with_suffix(".jsonl"), f"is missing; {_RESTORE}") for each in lost]
    return audit


def _problem(archive: Path) -> str | None:
    try:
        data = archive.with_suffix(".json").read_bytes()
        if not is_sealed(data):
            raise ValueError("it has no checksum")
        known = json.loads(data)
        sha256 = str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"its seal {archive.stem}.json is damaged ({error})"
    try:
        digest = file_digest(archive)
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    return None if digest == sha256 else "its checksum is that of other bytes: it was cut or edited"
