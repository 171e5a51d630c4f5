"""Audit runs: verify their checkpoints, and all other files against the seal of the run."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from docagent_rl.base.seals import SEAL, read_seal
from docagent_rl.checkpoints.file_status import RUN, FileStatus, file_findings, is_run
from docagent_rl.checkpoints.inspection import CheckpointState, inspect, is_left_behind
from docagent_rl.checkpoints.manifest import (
    MANIFEST,
    TRACKER,
    CheckpointCheck,
    read_tracker,
    step_folder,
    step_folders,
    step_of,
)
from docagent_rl.documents.audit import Audit, Damage, audit_store
from docagent_rl.documents.layout import MARKER

CHECKPOINTS = "checkpoints"
_MARKS_OF_RUN = (SEAL, RUN, "rescore.json")
_INSIDE = tuple(f"{depth}/{name}" for depth in ("*", "*/*") for name in _MARKS_OF_RUN)
"""Patterns of the files that mark a folder inside a run as a run of its own."""


def has_checkpoints(path: Path) -> bool:
    """Return whether a folder is a run with checkpoints, its checkpoint folder, or a checkpoint."""
    root = _root(path)
    return step_of(path) is not None or bool(step_folders(root)) or (root / TRACKER).is_file()


def audit_run(path: Path) -> Audit:
    """Verify a run of any kind with the runs and stores inside it, or only checkpoints."""
    path = path.absolute()
    audit = audit_checkpoints(path) if has_checkpoints(path) else Audit("")
    if is_run(path):
        inner = sorted({file.parent for pattern in _INSIDE for file in path.glob(pattern)})
        _merge(audit, audit_sealed(path))
        for folder in inner:
            is_store = (folder / MARKER).is_file()
            _merge(audit, audit_store(folder) if is_store else audit_sealed(folder))
        audit.notes += _added_from_elsewhere(path, inner)
    return audit


def _added_from_elsewhere(path: Path, inner: Iterable[Path]) -> Iterator[str]:
    """Report checkpoints and evaluations that are not in the seal of the run that contains them."""
    sealed = read_seal(path)
    if not sealed.records:
        return
    known = {*sealed.records, *sealed.begun}
    files = [folder / MANIFEST for folder in step_folders(_root(path))]
    files += [folder / RUN for folder in inner]
    for file in files:
        if file.is_file() and file.relative_to(path).as_posix() not in known:
            yield f"{file.parent} was added from elsewhere: it is not in the seal of the run"


def audit_sealed(root: Path) -> Audit:
    """Compare the files of a run with its seal."""
    audit = Audit("")
    count = 0
    for found in file_findings(root):
        count += found.status is not FileStatus.ABSENT
        if found.status is FileStatus.DAMAGED:
            audit.damages.append(Damage(found.path, str(found)))
        elif found.status is FileStatus.UNSEALED:
            audit.unsealed.append(str(found))
        elif found.status is not FileStatus.WHOLE:
            audit.notes.append(str(found))
    audit.contents = f"{count} sealed files"
    return audit


def audit_checkpoints(path: Path) -> Audit:
    """Verify the checksums of all files of one checkpoint, or of all checkpoints in a folder or
    run.
    """
    path = path.absolute()
    folders = step_folders(_root(path)) if step_of(path) is None else [path]
    audit = Audit(f"{len(folders)} checkpoint{'s' if len(folders) != 1 else ''}")
    for folder in folders:
        verdict = inspect(folder, CheckpointCheck.FULL)
        if verdict.state is CheckpointState.UNSEALED:
            audit.unsealed.append(f"{folder} has no manifest, so it was saved without this plugin")
        if verdict.state is CheckpointState.UNFINISHED and is_left_behind(folder):
            audit.notes.append(
                f"{folder} was removed by the run, and only contains files that were added by hand"
            )
        elif not verdict.usable:
            problem = verdict.reason
            if verdict.state is CheckpointState.UNFINISHED:
                problem = f"not complete, or being removed: {problem}"
            audit.damages.append(Damage(folder, problem))
    if step_of(path) is None:
        audit.damages += _tracker_damage(_root(path))
    return audit


def _tracker_damage(root: Path) -> list[Damage]:
    """Check that the checkpoint in the tracker exists; a run would resume from another one."""
    try:
        step = read_tracker(root)
    except ValueError as error:
        return [Damage(root / TRACKER, str(error))]
    if step is None or step_folder(root, step).is_dir():
        return []
    problem = (
        f"names {step_folder(root, step).name}, which does not exist: the run would resume from "
        "another checkpoint"
    )
    return [Damage(root / TRACKER, problem)]


def _merge(audit: Audit, part: Audit) -> None:
    """Add the results of another audit to an audit; a damaged file is listed once."""
    audit.contents = ", ".join(filter(None, (audit.contents, part.contents)))
    known = {damage.path for damage in audit.damages}
    audit.damages += [damage for damage in part.damages if damage.path not in known]
    audit.unsealed += part.unsealed
    audit.notes += part.notes


def _root(path: Path) -> Path:
    return path / CHECKPOINTS if (path / CHECKPOINTS).is_dir() else path
