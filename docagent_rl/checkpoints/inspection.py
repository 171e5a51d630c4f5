"""Inspect checkpoints: compare them with their manifest, or check what can be checked without one.

verl saves with `torch.save`, whose files are ZIP archives: the table of contents is at the end, so
a truncated file has none.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from docagent_rl.checkpoints.manifest import (
    MANIFEST,
    UNFINISHED,
    CheckpointCheck,
    CheckpointManifest,
    checksums,
    file_names,
    read_manifest,
)

DATA = "data.pt"
QUEUE = "transfer_queue"
"""Unfinished trajectories of the asynchronous trainer modes."""
ACTOR = "actor"
CRITIC = "critic"
_SHARD = re.compile(r"(actor|critic)/(\w+)_world_size_(\d+)_rank_(\d+)\.pt")
_READ_WHOLE = 64 * 2**20
"""Archives up to this many bytes are verified with their own checksums, too."""
_NAMED = 3


class CheckpointState(Enum):
    """The state of a checkpoint."""

    WHOLE = "whole"
    """It matches its manifest."""
    UNSEALED = "unsealed"
    """It has no manifest, but no visible damage: verl saved it without this plugin."""
    UNFINISHED = "unfinished"
    """It has no manifest, and is marked as incomplete or lacks parts; verl without this plugin
    removes parts of old checkpoints.
    """
    DAMAGED = "damaged"
    """It does not match its manifest."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an inspection."""

    folder: Path
    state: CheckpointState
    problems: tuple[str, ...] = ()
    """One line per problem, beginning with the file."""

    @property
    def usable(self) -> bool:
        """True if a run can resume from it."""
        return self.state in (CheckpointState.WHOLE, CheckpointState.UNSEALED)

    @property
    def reason(self) -> str:
        """The first problems in one line."""
        rest = len(self.problems) - _NAMED
        return "; ".join(self.problems[:_NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def inspect(folder: Path, check: CheckpointCheck, parts: Sequence[str] = (ACTOR,)) -> Verdict:
    """Inspect a checkpoint that has to contain the models `parts`; the check `off` acts as
    `sizes`.
    """
    try:
        manifest = read_manifest(folder)
        names = file_names(folder)
    except (OSError, ValueError) as error:
        return Verdict(folder, CheckpointState.DAMAGED, (f"{MANIFEST}: {error}",))
    if manifest is not None:
        problems = _differences(folder, names, manifest, check) or missing_parts(names, parts)
        state = CheckpointState.DAMAGED if problems else CheckpointState.WHOLE
    elif (folder / UNFINISHED).exists():
        problems = ["the run ended while it was saving or removing it"]
        state = CheckpointState.UNFINISHED
    else:
        problems = missing_parts(names, parts) + _archive_problems(folder, names)
        state = CheckpointState.UNFINISHED if problems else CheckpointState.UNSEALED
    return Verdict(folder, state, tuple(problems))


def _differences(
    folder: Path, names: Sequence[str], manifest: CheckpointManifest, check: CheckpointCheck
) -> list[str]:
    known = manifest.files
    problems = [f"{name}: is missing" for name in known if name not in set(names)]
    # verl would load an extra shard; nothing reads other files that someone added
    problems += [
        f"{name}: it is not in the manifest"
        for name in names
        if is_shard(name) and name not in known
    ]
    for name, record in known.items():
        if name in names and (size := (folder / name).stat().st_size) != record.bytes:
            problems.append(f"{name}: has {size} bytes, not {record.bytes}")
    if problems:
        return problems
    summed = {name: record for name, record in known.items() if record.sha256 is not None}
    if check is not CheckpointCheck.FULL or len(summed) < len(known):
        return _archive_problems(folder, known)
    try:
        digests = checksums(folder, {name: record.bytes for name, record in summed.items()})
    except OSError as error:
        return [f"{error.filename}: cannot be read ({error.strerror or error})"]
    wrong = sorted(name for name, record in summed.items() if digests[name] != record.sha256)
    return [f"{name}: its checksum does not match its content" for name in wrong]


def _archive_problems(folder: Path, names: Iterable[str]) -> list[str]:
    archives = {
        name: archive_problem(folder / name) for name in names if name == DATA or is_shard(name)
    }
    return [f"{name}: {problem}" for name, problem in archives.items() if problem]


def is_left_behind(folder: Path) -> bool:
    """Return whether a checkpoint was removed, and its folder only contains files of the user."""
    names = file_names(folder)
    return not ((folder / UNFINISHED).exists() or DATA in names or shards(names))


def shards(names: Iterable[str]) -> dict[tuple[str, str, int], set[int]]:
    """Return the ranks with files, by part (`actor`, `critic`), kind (`model`, ...) and world
    size.
    """
    found: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for name in names:
        if match := _SHARD.fullmatch(name):
            found[match[1], match[2], int(match[3])].add(int(match[4]))
    return dict(found)


def is_shard(name: str) -> bool:
    """Return whether a file is a shard that a rank of verl's FSDP loads."""
    return _SHARD.fullmatch(name) is not None


def world_sizes(names: Iterable[str], part: str) -> set[int]:
    """Return the world sizes for which a part is complete; empty if it is not saved as shards."""
    sizes: set[int] = set()
    incomplete: set[int] = set()
    for (shard_part, _kind, size), ranks in shards(names).items():
        if shard_part == part:
            sizes.add(size)
            if len(ranks) != size:
                incomplete.add(size)
    return sizes - incomplete


def missing_parts(names: Iterable[str], parts: Iterable[str] = (ACTOR,)) -> list[str]:
    """List what is missing from a checkpoint with these files that has to contain `parts`."""
    names = list(names)
    saved_parts = {name.partition("/")[0] for name in names if "/" in name}
    problems = [f"{part}/ is missing" for part in parts if part not in saved_parts]
    for (part, kind, size), ranks in sorted(shards(names).items()):
        if lacking := sorted(set(range(size)) - ranks):
            listed = ", ".join(map(str, lacking[:5])) + (", ..." if len(lacking) > 5 else "")
            problems.append(
                f"{part}/{kind}_world_size_{size}: the files of rank {listed} are missing"
            )
    if DATA not in names:
        problems.append(f"{DATA}, which is saved last, is missing")
    return problems


def archive_problem(path: Path) -> str | None:
    """Return why a file is not a complete one of `torch.save`; None if it may be."""
    try:
        with zipfile.ZipFile(path) as archive:
            if path.stat().st_size <= _READ_WHOLE and (broken := archive.testzip()):
                return f"its part {broken} is damaged"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, RuntimeError) as error:
        return f"is truncated or damaged ({error})"
    return None
