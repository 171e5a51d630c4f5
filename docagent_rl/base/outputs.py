"""Output files of commands, which overwrite other files only on request."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write

_OTHER = "{} exists with other content; choose another file, or replace it with --force"
Force = Annotated[bool, typer.Option("--force", help="Replace existing files that differ.")]


def write_output(path: Path, content: bytes | str, *, force: bool = False) -> bool:
    """Write a new file; return False if it already exists with exactly this content.

    Raises:
        UserError: a file with other content exists and `force` is off; it is left untouched.
    """
    return bool(write_outputs({path: content}, force=force))


def write_outputs(contents: Mapping[Path, bytes | str], *, force: bool = False) -> list[Path]:
    """Write files that belong together; return those that did not exist with this content.

    Raises:
        UserError: a file with other content exists and `force` is off; nothing is written.
    """
    new = [
        path for path, content in contents.items() if not check_output(path, content, force=force)
    ]
    for path in new:
        atomic_write(path, contents[path])
    return new


def check_output(path: Path, content: bytes | str, *, force: bool = False) -> bool:
    """Check that a file may be written; return whether it already exists with this content.

    Raises:
        UserError: a file with other content exists and `force` is off, or `path` is a folder.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder: give the path of a file")
    if not path.exists():
        return False
    same = path.read_bytes() == (content.encode("utf-8") if isinstance(content, str) else content)
    if not (same or force):
        raise UserError(_OTHER.format(path))
    return same


def written_before(path: Path, mark: str) -> Mapping[str, Any] | None:
    """Return the JSON object in a file if it has the key `mark`, and None for anything else."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):  # a UnicodeDecodeError is a ValueError, too
        return None
    return found if isinstance(found, dict) and mark in found else None


def write_stream(path: Path, pieces: Iterable[bytes], *, force: bool = False) -> bool:
    """Do what `write_output` does for a file too large for memory, which comes in `pieces`."""
    if force or not path.exists():
        atomic_write(path, pieces)
        return True
    with path.open("rb") as found:
        equal = all(found.read(len(piece)) == piece for piece in pieces) and not found.read(1)
    if not equal:
        raise UserError(_OTHER.format(path))
    return False
