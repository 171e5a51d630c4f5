"""What can be said of a checkpoint without a manifest: which files are missing, and which have no end.

verl saves with `torch.save`, whose files are ZIP archives: the table of contents is at the end, so that a
file that was cut off has none.
"""

from __future__ import annotations

import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

DATA = "data.pt"
QUEUE = "transfer_queue"
"""Trajectories under way, of the asynchronous trainer modes."""
ACTOR, CRITIC = "actor", "critic"
_SHARD = re.compile(r"(actor|critic)/(\w+)_world_size_(\d+)_rank_(\d+)\.pt")
_READ_WHOLE = 64 * 2**20
"""Bytes up to which the checksums inside of an archive are verified too."""


def shards(names: Iterable[str]) -> dict[tuple[str, str, int], set[int]]:
    """The ranks of which there are files, by part (`actor`, `critic`), kind (`model`, ...) and world size."""
    found: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for name in names:
        if match := _SHARD.fullmatch(name):
            found[match[1], match[2], int(match[3])].add(int(match[4]))
    return dict(found)


def is_shard(name: str) -> bool:
    """Whether a file is one that a rank of verl's FSDP reads."""
    return _SHARD.fullmatch(name) is not None


def world_sizes(names: Iterable[str], part: str) -> set[int]:
    """For how many processes a part is complete; none where it is saved in another form."""
    groups = shards(names)
    sizes = {size for found, _, size in groups if found == part}
    return {n for n in sizes if all(len(r) == n for (p, _, s), r in groups.items() if (p, s) == (part, n))}


def missing_parts(names: Iterable[str], parts: Iterable[str] = (ACTOR,)) -> list[str]:
    """What a checkpoint lacks, one line each.

    Args:
        names: its files, by path below its folder.
        parts: the models that it has to hold.
    """
    names = list(names)
    problems = [f"{part}/ is missing" for part in parts if not any(n.startswith(f"{part}/") for n in names)]
    for (part, kind, size), ranks in sorted(shards(names).items()):
        if lacking := sorted(set(range(size)) - ranks):
            listed = ", ".join(map(str, lacking[:5])) + (", ..." if len(lacking) > 5 else "")
            problems.append(f"{part}/{kind}_world_size_{size}: the files of rank {listed} are missing")
    if DATA not in names:
        problems.append(f"{DATA} is missing, which is saved last")
    return problems


def archive_problem(path: Path) -> str | None:
    """Why a file cannot be one that `torch.save` has finished; None where it can."""
    try:
        with zipfile.ZipFile(path) as archive:
            if path.stat().st_size <= _READ_WHOLE and (broken := archive.testzip()):
                return f"its part {broken} is damaged"
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    except (zipfile.BadZipFile, NotImplementedError, ValueError, EOFError, RuntimeError) as error:
        return f"was cut off or is damaged ({error})"
    return None
