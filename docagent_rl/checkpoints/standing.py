"""Files of a run beside its seal: for `check`, and for whoever reads a run."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import SEAL, FileState, Sealed, read_seal, seal_difference
from docagent_rl.checkpoints.manifest import MANIFEST, TRACKER

logger = logging.getLogger(__name__)

READ = (
    "trajectories/*.jsonl", "metrics/*.json", "credit/*.parquet", "hydra/*.yaml",
    "run.json", "trajectories.jsonl", "kept.jsonl", "verdicts.jsonl", "funnel.json", "scores.jsonl",
    "probe.json", "probe.md", "rescore.json", "rescore.md", "report.json", "report.md",
)  # fmt: skip
"""Files of a run that commands read, by pattern: none of them passes for one of the run without its
seal.
"""
SUPERSEDED = "superseded"
"""The folder of what a run has done again."""
RUN = "run.json"
"""The description of a run that is not the trainer's."""
_OF_FOLDERS = (MANIFEST, TRACKER, RUN)
"""Files that speak for the folder in which they lie, which may be taken elsewhere as a whole."""
_RESTORE = "take it from a copy, or leave it out of what you report"


class Standing(Enum):
    """The relation of a file to the seal of its run."""

    WHOLE = "whole"
    """It is as it was written."""
    FOUND = "found"
    """It is as the start after a kill found it and sealed it."""
    UNSEALED = "unsealed"
    """It was being written when the run ended, or is now."""
    ABSENT = "absent"
    """A checkpoint or an evaluation that was taken elsewhere as a whole, or removed."""
    DAMAGED = "damaged"
    """It is not as it was written, or not of this run."""


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A file of a run, and what is to be said of it."""

    path: Path
    standing: Standing
    problem: str = ""
    """The difference in words; empty where there is none."""

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


def root_of(path: Path) -> Path | None:
    """Return the folder whose seal is there for a file; None where there is none."""
    absolute = path.absolute()
    return next((folder for folder in absolute.parents[:3] if (folder / SEAL).is_file()), None)


def is_run(folder: Path) -> bool:
    """Return whether a folder is one that a command or the trainer made, by what lies in it."""
    patterns = [
        each for each in READ if not each.startswith("hydra/")
    ]  # Hydra writes that of any program
    return (folder / SEAL).exists() or any(next(folder.glob(pattern), None) for pattern in patterns)


def file_findings(root: Path) -> Iterator[FileFinding]:
    """Compare every file of a run with its seal; also those that commands would take for some of
    its own.
    """
    sealed = read_seal_of(root)
    damaged = seal_finding(root, sealed)
    if damaged is not None:
        yield damaged
    for name in names_of(root, sealed):
        yield finding(root, name, sealed)


def seal_finding(root: Path, sealed: Sealed) -> FileFinding | None:
    """Return what is to be said of a seal itself; None where it is whole."""
    if not (sealed.records or sealed.begun):
        what = "is empty" if sealed.there else "is missing"
        problem = f"{what}: nothing says whether the files of this run are as they were written"
    elif sealed.broken:
        problem = (
            f"was edited, or lines before line {sealed.broken[0]} are missing: take it from a copy"
        )
    elif sealed.torn:
        problem = "ends within a line: a process was killed as it wrote there, or bytes were added"
        return FileFinding(root / SEAL, Standing.UNSEALED, problem)
    else:
        return None
    return FileFinding(root / SEAL, Standing.DAMAGED, problem)


def names_of(root: Path, sealed: Sealed) -> list[str]:
    """Return the paths of files that the seal knows, and of others that commands read, below the
    folder.

    Of a seal that is damaged nobody knows which files it does not know any more.
    """
    known = {*sealed.records, *sealed.begun}
    others = set[str]()
    if known and not sealed.broken:
        patterns = (*READ, *(f"{SUPERSEDED}/*/{each}" for each in READ if "/" in each))
        paths = (path for pattern in patterns for path in root.glob(pattern) if path.name[0] != ".")
        others = {path.relative_to(root).as_posix() for path in paths}
    return sorted(known | others)


def finding(root: Path, name: str, sealed: Sealed | None = None) -> FileFinding:
    """Compare a file, given by its path below the folder, with the seal of the folder."""
    known = sealed or read_seal_of(root)
    found = _compared(root / name, name, known)
    if found.standing is Standing.DAMAGED and (now := read_seal_of(root)) != known:
        found = _compared(root / name, name, now)  # the run goes on, and has written it meanwhile
    return found


def require_whole(paths: Iterable[Path]) -> None:
    """See that files that are to be read are as they were written; what is not sealed is said in
    the log.

    Files of no run are taken as they are.

    Raises:
        UserError: one is damaged, or passes for a file of a run that has not written it.
    """
    seals: dict[Path, Sealed] = {}
    for path in paths:
        root = root_of(path)
        if root is None:
            if any(map(is_run, path.absolute().parents[:2])):
                logger.warning("%s has no seal (%s), so that damage would go unseen", path, SEAL)
            continue
        name = path.absolute().relative_to(root).as_posix()
        if root not in seals:
            seals[root] = read_seal_of(root)
        found = finding(root, name, seals[root])
        if found.standing is Standing.DAMAGED and (
            name in read_seal_of(root).records or _is_read(name)
        ):
            raise UserError(f"{found}; `docagent-rl check {root}` lists all that is damaged")
        if found.standing is not Standing.WHOLE:
            logger.warning("%s", found)


def _compared(path: Path, name: str, sealed: Sealed) -> FileFinding:
    record = sealed.records.get(name)
    problem = (
        "is not of this run, whose seal does not know it"
        if record is None
        else seal_difference(path, record)
    )
    if record is not None and not problem:
        if record.state is FileState.FOUND:
            said = "was sealed by a later start as it was found: the one that wrote it was killed"
            return FileFinding(path, Standing.FOUND, said)
        tail = record.state is FileState.GROWING and path.stat().st_size > record.bytes
        if not tail:
            return FileFinding(path, Standing.WHOLE)
        return FileFinding(
            path, Standing.UNSEALED, f"is not sealed beyond its first {record.bytes} bytes"
        )
    if name in sealed.begun:
        said = "was being written when the run ended, or is now: it is not sealed"
        return FileFinding(path, Standing.UNSEALED, said)
    movable = path.name in _OF_FOLDERS or name.startswith(f"{SUPERSEDED}/")
    if movable and not path.parent.exists():
        return FileFinding(
            path.parent, Standing.ABSENT, "is not here any more: it was taken elsewhere, or removed"
        )
    return FileFinding(path, Standing.DAMAGED, f"{problem}; {_RESTORE}")


def _is_read(name: str) -> bool:
    return any(PurePosixPath(name).match(pattern) for pattern in READ)


def read_seal_of(root: Path) -> Sealed:
    """Read the seal of a run.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return read_seal(root)
    except OSError as error:
        raise UserError(f"{root / SEAL} cannot be read ({error.strerror or error})") from error
