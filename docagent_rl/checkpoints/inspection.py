"""Inspect checkpoints: compare them with their manifest, or see what can be seen without one.

verl saves with `torch.save`, whose files are ZIP archives: the table of contents is at the end, so
that a file that was cut off has none.
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
"""Trajectories under way, of the asynchronous trainer modes."""
ACTOR = "actor"
CRITIC = "critic"
_SHARD = re.compile(r"(actor|critic)/(\w+)_world_size_(\d+)_rank_(\d+)\.pt")
_READ_WHOLE = 64 * 2**20
"""Bytes up to which the checksums inside of an archive are verified too."""
_NAMED = 3


class CheckpointState(Enum):
    """The state of a checkpoint."""

    WHOLE = "whole"
    """Everything is as its manifest says."""
    UNSEALED = "unsealed"
    """No manifest, and nothing is seen to be wrong: of verl alone."""
    UNFINISHED = "unfinished"
    """No manifest, and a mark that says so, or parts are missing: verl alone removes some of old
    ones.
    """
    DAMAGED = "damaged"
    """Something is not as the manifest says."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of an inspection."""

    folder: Path
    state: CheckpointState
    problems: tuple[str, ...] = ()
    """One line each, beginning with the file."""

    @property
    def usable(self) -> bool:
        """True when a run can go on from it."""
        return self.state in (CheckpointState.WHOLE, CheckpointState.UNSEALED)

    @property
    def reason(self) -> str:
        """The problems in one line."""
        rest = len(self.problems) - _NAMED
        return "; ".join(self.problems[:_NAMED]) + (f"; and {rest} more" if rest > 0 else "")


def inspect(folder: Path, check: CheckpointCheck, parts: Sequence[str] = (ACTOR,)) -> Verdict:
    """Inspect a checkpoint, which has to hold the models `parts`; the check `off` counts as
    `sizes`.
    """
    try:
        manifest = read_manifest(folder)
        names = file_names(folder)
    except (OSError, ValueError) as error:
        return Verdict(folder, CheckpointState.DAMAGED, (f"{MANIFEST}: {error}",))
    if manifest is None:
        if (folder / UNFINISHED).exists():
            return Verdict(
                folder, CheckpointState.UNFINISHED, ("the run ended while it was saved or removed",)
            )
        problems = missing_parts(names, parts) + _archive_problems(folder, names)
        return Verdict(
            folder,
            CheckpointState.UNFINISHED if problems else CheckpointState.UNSEALED,
            tuple(problems),
        )
    problems = _differences(folder, names, manifest, check) or missing_parts(names, parts)
    return Verdict(
        folder, CheckpointState.DAMAGED if problems else CheckpointState.WHOLE, tuple(problems)
    )


def _differences(
    folder: Path, names: Sequence[str], manifest: CheckpointManifest, check: CheckpointCheck
) -> list[str]:
    known = manifest.files
    problems = [f"{name}: is missing" for name in known if name not in set(names)]
    # verl would load it; anything else that somebody has put there is read by nobody
    problems += [
        f"{name}: the manifest does not have it"
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
    return [f"{name}: its checksum is that of other bytes" for name in wrong]


def _archive_problems(folder: Path, names: Iterable[str]) -> list[str]:
    archives = {
        name: archive_problem(folder / name) for name in names if name == DATA or is_shard(name)
    }
    return [f"{name}: {problem}" for name, problem in archives.items() if problem]


def is_left_behind(folder: Path) -> bool:
    """Return whether nothing of a checkpoint is in its folder: it was removed, and a user's files
    stayed.
    """
    names = file_names(folder)
    return not ((folder / UNFINISHED).exists() or DATA in names or shards(names))


def shards(names: Iterable[str]) -> dict[tuple[str, str, int], set[int]]:
    """Return the ranks that have files, by part (`actor`, `critic`), kind (`model`, ...) and world
    size.
    """
    found: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for name in names:
        if match := _SHARD.fullmatch(name):
            found[match[1], match[2], int(match[3])].add(int(match[4]))
    return dict(found)


def is_shard(name: str) -> bool:
    """Return whether a file is one that a rank of verl's FSDP reads."""
    return _SHARD.fullmatch(name) is not None


def world_sizes(names: Iterable[str], part: str) -> set[int]:
    """Return the numbers of processes for which a part is complete; none where it has another
    form.
    """
    groups = shards(names)
    sizes = {size for found, _, size in groups if found == part}
    return {
        n
        for n in sizes
        if all(len(r) == n for (p, _, s), r in groups.items() if (p, s) == (part, n))
    }


def missing_parts(names: Iterable[str], parts: Iterable[str] = (ACTOR,)) -> list[str]:
    """List what a checkpoint of these files lacks, one line each; it has to hold the models
    `parts`.
    """
    names = list(names)
    problems = [
        f"{part}/ is missing" for part in parts if not any(n.startswith(f"{part}/") for n in names)
    ]
    for (part, kind, size), ranks in sorted(shards(names).items()):
        if lacking := sorted(set(range(size)) - ranks):
            listed = ", ".join(map(str, lacking[:5])) + (", ..." if len(lacking) > 5 else "")
            problems.append(
                f"{part}/{kind}_world_size_{size}: the files of rank {listed} are missing"
            )
    if DATA not in names:
        problems.append(f"{DATA} is missing, which is saved last")
    return problems


def archive_problem(path: Path) -> str | None:
    """Return why a file cannot be one that `torch.save` has finished; None where it can."""
    try:
        with zipfile.ZipFile(path) as archive:
            if path.stat().st_size <= _READ_WHOLE and (broken := archive.testzip()):
                return f"its part {broken} is damaged"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, RuntimeError) as error:
        return f"was cut off or is damaged ({error})"
    return None
