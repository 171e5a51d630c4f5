"""Files that a command was asked to write: none takes the place of another file unasked."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write

_OTHER = "{} holds something else; name another file, or replace it with --force"
Force = Annotated[bool, typer.Option("--force", help="Replace existing files that differ.")]


def write_output(path: Path, content: bytes | str, *, force: bool = False) -> bool:
    """Write a file that is not there; return False when it was there already, byte for byte.

    Raises:
        UserError: another file is there, without `force`; it was left alone.
    """
    return bool(write_outputs({path: content}, force=force))


def write_outputs(contents: Mapping[Path, bytes | str], *, force: bool = False) -> list[Path]:
    """Write files that belong together; return those that were not there already, byte for byte.

    Raises:
        UserError: another file is there, without `force`; nothing was written.
    """
    new = [
        path for path, content in contents.items() if not check_output(path, content, force=force)
    ]
    for path in new:
        atomic_write(path, contents[path])
    return new


def check_output(path: Path, content: bytes | str, *, force: bool = False) -> bool:
    """See that a file may be written; return whether it is there already, byte for byte.

    Raises:
        UserError: another file is there, without `force`, or a folder.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder: name a file")
    if not path.exists():
        return False
    same = path.read_bytes() == (content.encode("utf-8") if isinstance(content, str) else content)
    if not (same or force):
        raise UserError(_OTHER.format(path))
    return same


def written_before(path: Path, mark: str) -> Mapping[str, Any] | None:
    """Return the JSON object that a command wrote, known by a key that marks it; None for anything
    else.
    """
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):  # half a character is one, too
        return None
    return found if isinstance(found, dict) and mark in found else None


def write_stream(path: Path, pieces: Iterable[bytes], *, force: bool = False) -> bool:
    """Do the same for a file too large for memory, whose `pieces` are asked for as they are
    written.
    """
    if force or not path.exists():
        atomic_write(path, pieces)
        return True
    with path.open("rb") as found:
        equal = all(found.read(len(piece)) == piece for piece in pieces) and not found.read(1)
    if not equal:
        raise UserError(_OTHER.format(path))
    return False
