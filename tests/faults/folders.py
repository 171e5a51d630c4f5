"""Damage to the files of a folder."""

from __future__ import annotations

import re
import shutil
from enum import StrEnum
from pathlib import Path
from random import Random

from tests.faults.mutate import Damage, damage, pick

_VALUE = re.compile(rb'":\s*("[^"]*"|[0-9.]+|null|true|false)')
_VALUES = (
    b"null",
    b"-1",
    b'""',
    b"1e999",
    b'"\\ud800"',
    b"[]",
    b"{}",
    b"0",
    b"true",
    b'"' + b"0" * 64 + b'"',
)


class FolderDamage(StrEnum):
    """What is done to a folder."""

    NONE = "nothing"
    BYTES = "bytes changed"
    MISSING = "missing"
    SWAPPED = "swapped with another"
    FOREIGN = "that of another folder"
    FOLDER = "a folder in its place"
    LINK = "a link to nowhere in its place"
    EXTRA = "an extra file beside it"
    EDITED = "a value edited"


_WEIGHTS = {FolderDamage.BYTES: 8, FolderDamage.SWAPPED: 3, FolderDamage.FOREIGN: 3, FolderDamage.EDITED: 3}


def damage_folder(root: Path, other: Path, random: Random) -> str:
    """Damage one file of `root`; `other` is a folder of the same kind. Returns what was done, in words."""
    kinds = list(FolderDamage)
    kind = random.choices(kinds, [_WEIGHTS.get(kind, 1) for kind in kinds])[0]
    files = [path for path in sorted(root.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    if kind is FolderDamage.EDITED:
        files = [path for path in files if path.suffix == ".json"]
    # as many of each kind of file, not most of the kind that there is most of
    suffix = random.choice(sorted({path.suffix for path in files}))
    path = random.choice([path for path in files if path.suffix == suffix])
    detail = _do(kind, path, files, other, random)
    return f"{path.relative_to(root)}: {kind}{detail}"


def contents(root: Path) -> dict[str, bytes]:
    """The files of a folder without those that start with a dot, and what they hold."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }


def _do(kind: FolderDamage, path: Path, files: list[Path], other: Path, random: Random) -> str:
    data = path.read_bytes()
    match kind:
        case FolderDamage.BYTES:
            # of the same length too, which a look at the size does not tell
            how = pick(random) if random.random() < 0.5 else Damage.FLIP
            path.write_bytes(damage(data, how, random) if data else b"x")
            return f" ({how})"
        case FolderDamage.MISSING:
            path.unlink()
        case FolderDamage.SWAPPED:
            partner = random.choice([file for file in files if file.suffix == path.suffix])
            path.write_bytes(partner.read_bytes())
            partner.write_bytes(data)
            return f" ({partner.name})"
        case FolderDamage.FOREIGN:
            theirs = [file for file in sorted(other.rglob(f"*{path.suffix}")) if file.is_file()]
            same = [file for file in theirs if file.name == path.name]
            shutil.copyfile(random.choice(same or theirs), path)
        case FolderDamage.FOLDER:
            path.unlink()
            path.mkdir()
        case FolderDamage.LINK:
            path.unlink()
            path.symlink_to("nowhere")
        case FolderDamage.EXTRA:
            name = random.choice((f"{path.name}.bak", "notes.txt", f"0{path.name}"))
            path.with_name(name).write_bytes(random.choice((b"", b"x", data)))
            return f" ({name})"
        case FolderDamage.EDITED:
            values = list(_VALUE.finditer(data))
            if not values:
                path.write_bytes(random.choice(_VALUES))
                return " (all of it)"
            found = random.choice(values)
            value = random.choice(_VALUES)
            path.write_bytes(data[: found.start(1)] + value + data[found.end(1) :])
            return f" ({found[1][:20]!r} is now {value[:20]!r})"
    return ""
