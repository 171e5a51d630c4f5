"""Lock folders that only one process may write to at a time.

The lock file names the process that holds the lock, so that others can be told whom they wait for.
The lock is the operating system's (`flock`), which releases it when the process ends, however it
ends. On a network file system it works between machines if the file system forwards locks (NFS
does, unless it is mounted with `local_lock`); on a file system without locks nothing is locked.
"""

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import writable

LOCK_FILE = ".docagent.lock"
_LOOKS = 20
_LOOK_S = 0.05
_held: dict[str, int] = {}
_mutex = threading.Lock()


def lock_folder(folder: Path, named: str) -> bool:
    """Create a folder and lock it until `release_folder` or the end of this process.

    Args:
        folder: this process may have locked it already.
        named: how error messages refer to it, such as `docagent.run_dir=...`.

    Returns:
        True if this call acquired the lock, False if this process already had it.

    Raises:
        UserError: another process holds the lock, or the folder cannot be written.
    """
    with _mutex:
        key = os.path.realpath(folder)
        if key in _held:
            return False
        with writable(folder):
            folder.mkdir(parents=True, exist_ok=True)
            handle = _open(folder / LOCK_FILE)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(handle)
            os.close(handle)
            raise UserError(
                f"{named}: {holder} is writing to this folder: wait until it ends, stop it, or "
                "use another folder"
            ) from None
        except OSError:  # a file system without locks
            pass
        with writable(folder):
            _sign(handle)
        _held[key] = handle
        return True


def release_folder(folder: Path) -> None:
    """Release the lock on a folder if this process holds it."""
    with _mutex:
        handle = _held.pop(os.path.realpath(folder), None)
        if handle is not None:
            os.close(handle)


@contextmanager
def folder_locked(folder: Path, named: str) -> Generator[None]:
    """Lock a folder for the duration of the block, also against other threads of this process.

    Raises:
        UserError: the folder is locked already, or cannot be written.
    """
    if not lock_folder(folder, named):
        raise UserError(f"{named}: this process is already writing to this folder")
    try:
        yield
    finally:
        release_folder(folder)


def _open(path: Path) -> int:
    # The file is never removed: a lock on a file that is no longer in the folder locks nobody out.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _sign(handle: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{text}\n".encode(), 0)


def _holder(handle: int) -> str:
    """Describe the process that holds the lock; one that has just locked gets time to sign."""
    for _ in range(_LOOKS):
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(os.pread(handle, 4096, 0))
            pid = int(found["pid"])
            host = str(found["host"])
            if host != socket.gethostname() or Path(f"/proc/{pid}").exists():
                return f"process {pid} on {host[:200]!r} (since {str(found['since'])[:40]})"
        time.sleep(_LOOK_S)
    return "another process"


def _forget() -> None:
    """Close the parent's lock files in a forked child, which would otherwise keep the locks."""
    for handle in _held.values():
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
