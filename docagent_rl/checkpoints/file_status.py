"""Compare the files of a run with its seal, for `check` and for commands that read a run."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePosixPath

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import SEAL, FileState, Sealed, read_seal, seal_difference
from docagent_rl.checkpoints.manifest import MANIFEST, TRACKER

logger = logging.getLogger(__name__)

RUN = "run.json"
"""The description of a run that is not the trainer's."""
VERDICTS = "verdicts.jsonl"
"""The decisions of a collection's filters on each trajectory."""
SCORES = "scores.jsonl"
"""The numbers with which each trajectory of a run was scored."""
READ = (
    "trajectories/*.jsonl", "metrics/*.json", "credit/*.parquet", "hydra/*.yaml",
    RUN, "trajectories.jsonl", "kept.jsonl", VERDICTS, "funnel.json", SCORES,
    "probe.json", "probe.md", "rescore.json", "rescore.md", "report.json", "report.md",
)  # fmt: skip
"""Patterns of a run's files that commands read; such a file only counts as the run's if it is
sealed.
"""
SUPERSEDED = "superseded"
"""The folder for results of steps that a run has repeated."""
_FOLDER_FILES = (MANIFEST, TRACKER, RUN)
"""Files that represent their folder, which may be moved elsewhere as a whole."""
_PLAYED = (RUN, "trajectories.jsonl", "trajectories")
"""Names of which a run has one as soon as something has been played."""
_DEEPEST = 3
"""Levels of folders between a workspace and its runs, at most."""
_NAMED = 5
"""Most runs that an error names."""
_RESTORE = "restore it from a copy, or do not use it in what you report"
_UNSEALED = "with unsealed=True it is read as it is"


class FileStatus(Enum):
    """The status of a file according to the seal of its run."""

    WHOLE = "whole"
    """It is as it was written."""
    FOUND = "found"
    """It is as a later start found and sealed it, after its writer was killed."""
    UNSEALED = "unsealed"
    """It was being written when the run ended, or is being written now."""
    ABSENT = "absent"
    """A checkpoint or an evaluation that was moved elsewhere as a whole, or removed."""
    DAMAGED = "damaged"
    """It is not as it was written, or does not belong to this run."""


@dataclass(frozen=True, slots=True)
class FileFinding:
    """A file of a run, and how it differs from the seal."""

    path: Path
    status: FileStatus
    problem: str = ""
    """The difference as the predicate of a sentence; empty if there is none."""

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


def root_of(path: Path) -> Path | None:
    """Return the nearest folder above a file that has a seal; None if there is none."""
    absolute = path.absolute()
    return next((folder for folder in absolute.parents[:3] if (folder / SEAL).is_file()), None)


def is_run(folder: Path) -> bool:
    """Return whether a folder is the run of a command or of the trainer, judging by its files."""
    # hydra/ does not count, as Hydra writes it for any program
    patterns = [each for each in READ if not each.startswith("hydra/")]
    return (folder / SEAL).exists() or any(next(folder.glob(pattern), None) for pattern in patterns)


def runs_below(folder: Path) -> list[Path]:
    """Return the runs inside a folder, at most three levels down, without those inside of runs."""
    found: list[Path] = []
    level = [folder]
    for _ in range(_DEEPEST):
        inside = [path for each in level for path in sorted(each.glob("[!.]*/"))]
        runs = [path for path in inside if any((path / name).exists() for name in _PLAYED)]
        found += runs
        level = [path for path in inside if path not in runs]
    return found


def runs_hint(folder: Path) -> str:
    """Return a clause that names the runs inside a folder, for errors; empty if there are none."""
    found = [str(path) for path in runs_below(folder)]
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return f"; the runs in it are {', '.join(found[:_NAMED])}{more}" if found else ""


def file_findings(root: Path) -> Iterator[FileFinding]:
    """Compare every file of a run with its seal, and every other file that commands would read."""
    sealed = read_seal_of(root)
    damaged = seal_finding(root, sealed)
    if damaged is not None:
        yield damaged
    for name in names_of(root, sealed):
        yield finding(root, name, sealed)


def seal_finding(root: Path, sealed: Sealed) -> FileFinding | None:
    """Return what is wrong with a seal itself; None if it is intact."""
    if not (sealed.records or sealed.begun):
        what = "is empty" if sealed.there else "is missing"
        problem = f"{what}, so that nothing shows whether this run's files are as they were written"
    elif sealed.broken:
        problem = (
            f"was edited, or lines before line {sealed.broken[0]} are missing: restore it from a "
            "copy"
        )
    elif sealed.torn:
        problem = "ends in the middle of a line: its writer was killed, or bytes were appended"
        return FileFinding(root / SEAL, FileStatus.UNSEALED, problem)
    else:
        return None
    return FileFinding(root / SEAL, FileStatus.DAMAGED, problem)


def names_of(root: Path, sealed: Sealed) -> list[str]:
    """Return the paths below the folder of sealed files, and of other files that commands read.

    If the seal is damaged, only sealed files are returned: others may have been sealed as well.
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
    if found.status is FileStatus.DAMAGED and (now := read_seal_of(root)) != known:
        found = _compared(root / name, name, now)  # the run is active, and has just written it
    return found


def require_whole(paths: Iterable[Path]) -> None:
    """Check that files are as they were written, before they are read; log a warning for unsealed
    ones.

    Files that do not belong to a run are not checked.

    Raises:
        UserError: a file is damaged, or pretends to belong to a run that has not written it.
    """
    seals: dict[Path, Sealed] = {}
    for path in paths:
        root = root_of(path)
        if root is None:
            if any(map(is_run, path.absolute().parents[:2])):
                logger.warning("%s has no seal (%s), so damage would go unnoticed", path, SEAL)
            continue
        name = path.absolute().relative_to(root).as_posix()
        if root not in seals:
            seals[root] = read_seal_of(root)
        found = finding(root, name, seals[root])
        if found.status is FileStatus.DAMAGED and (
            name in read_seal_of(root).records or _is_read(name)
        ):
            raise UserError(f"{found}; `docagent-rl check {root}` lists all damaged files")
        if found.status is not FileStatus.WHOLE:
            logger.warning("%s", found)


def whole_files(root: Path, pattern: str, *, unsealed: bool = False) -> list[Path]:
    """Return the files of a run that match a pattern, all of them as they were written.

    Unlike `require_whole`, this notices files that are missing, and refuses unsealed ones.

    Args:
        root: the folder of the run.
        pattern: the path below it, as `folder/*.suffix`; `*` stands for no slash.
        unsealed: accept files that nothing shows to be whole: those being written, and all files of
            a run without a seal.

    Raises:
        UserError: names the first file that is damaged, missing, or unsealed.
    """
    sealed = read_seal_of(root)
    if not sealed.there:
        paths = sorted(path for path in root.glob(pattern) if path.name[0] != ".")
        if paths and not unsealed:
            raise UserError(f"{root / SEAL} is missing, so damage would go unnoticed; {_UNSEALED}")
        return paths
    names = [name for name in names_of(root, sealed) if _matches(name, pattern)]
    findings = [seal_finding(root, sealed), *(finding(root, name, sealed) for name in names)]
    for found in filter(None, findings):
        if found.status is FileStatus.DAMAGED:
            raise UserError(f"{found}; `docagent-rl check {root}` lists all damaged files")
        if found.status is FileStatus.UNSEALED and not unsealed:
            raise UserError(f"{found}; {_UNSEALED}")
    # a file that is being written need not exist yet
    return [root / name for name in names if (root / name).is_file()]


def _matches(name: str, pattern: str) -> bool:
    # a relative pattern of pathlib also matches below other folders, such as `superseded`
    return name.count("/") == pattern.count("/") and PurePosixPath(name).match(pattern)


def _compared(path: Path, name: str, sealed: Sealed) -> FileFinding:
    record = sealed.records.get(name)
    problem = "does not belong to this run: it is not in the run's seal"
    if record is not None:
        problem = seal_difference(path, record)
    if record is not None and not problem:
        if record.state is FileState.FOUND:
            note = "was sealed as found by a later start, because its writer was killed"
            return FileFinding(path, FileStatus.FOUND, note)
        has_unsealed_end = record.state is FileState.GROWING and path.stat().st_size > record.bytes
        if not has_unsealed_end:
            return FileFinding(path, FileStatus.WHOLE)
        note = f"is not sealed beyond its first {record.bytes} bytes"
        return FileFinding(path, FileStatus.UNSEALED, note)
    if name in sealed.begun:
        note = "is not sealed: it was being written when the run ended, or is being written now"
        return FileFinding(path, FileStatus.UNSEALED, note)
    movable = path.name in _FOLDER_FILES or name.startswith(f"{SUPERSEDED}/")
    if movable and not path.parent.exists():
        return FileFinding(
            path.parent, FileStatus.ABSENT, "does not exist any more: it was moved, or removed"
        )
    return FileFinding(path, FileStatus.DAMAGED, f"{problem}; {_RESTORE}")


def _is_read(name: str) -> bool:
    return any(PurePosixPath(name).match(pattern) for pattern in READ)


def read_seal_of(root: Path) -> Sealed:
    """Read the seal of a run.

    Raises:
        UserError: the seal cannot be read.
    """
    try:
        return read_seal(root)
    except OSError as error:
        raise UserError(f"{root / SEAL} cannot be read ({error.strerror or error})") from error
