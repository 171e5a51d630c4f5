"""Files of a store."""

from __future__ import annotations

import errno
import os
import secrets
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import FULL, replace_file
from docagent_rl.base.surrogates import encodable

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_IN_THE_WAY = frozenset({errno.EISDIR, errno.ENOTDIR})


def write(path: Path, content: bytes | str) -> None:
    """Write a file whole or not at all; `StoreLayout.remove_leftovers` cleans up after killed processes.

    Raises:
        UserError: The disk is full, or the folder cannot be written to.
    """
    data = encodable(content).encode("utf-8") if isinstance(content, str) else content
    try:
        replace_file(path, data, sweep=False)
    except OSError as error:
        raise cannot_write(path, error) from error


def place(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, as far as processes can see; on disk it is after `force`.

    Raises:
        UserError: The disk is full, or the folder cannot be written to.
    """
    # the name that `StoreLayout.remove_leftovers` knows; no two nodes choose the same
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            handle = os.open(scratch, _NEW)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(scratch, _NEW)
        try:
            try:
                _write_all(handle, data)
                os.fchmod(handle, 0o644)
            finally:
                os.close(handle)
            scratch.replace(path)
        except BaseException:  # an interrupt too leaves nothing behind
            scratch.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(path, error) from error


def _write_all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def force(path: Path) -> None:
    """Wait until a file that `place` wrote is on disk.

    Raises:
        UserError: It cannot be written there.
    """
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> UserError:
    """The error for a file that could not be written, with what to do."""
    if error.errno in FULL:
        remedy = "make room there"
    elif error.errno in _IN_THE_WAY:
        remedy = "delete what is in its place"
    else:
        remedy = "make the folder writable, or name another store"
    return UserError(
        f"cannot write {path} ({error.strerror or error}): {remedy}; then the same command goes on from here"
    )
