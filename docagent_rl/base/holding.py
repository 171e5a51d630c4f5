"""Folders that one process at a time writes to: whoever holds one says who it is, and others are
refused.

The lock is the system's (`flock`): it goes with the process, however that ends. On file systems of
several machines it holds among them as far as these pass locks on (NFS does, unless it is mounted
with `local_lock`); where a file system has no locks, nobody is kept out.
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


def hold_folder(folder: Path, named: str) -> bool:
    """Make a folder and hold it until `release_folder`, or the end of this process.

    Args:
        folder: may be held by this process already.
        named: what messages call it, such as `docagent.run_dir=...`.

    Returns:
        Whether this call took it; False: this process had it before.

    Raises:
        UserError: another process holds it, or it cannot be written.
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
                f"{named}: {holder} writes there: wait for its end, end it, or name another folder"
            ) from None
        except OSError:  # a file system without locks
            pass
        with writable(folder):
            _sign(handle)
        _held[key] = handle
        return True


def release_folder(folder: Path) -> None:
    """Let others have a folder that this process holds, if it does."""
    with _mutex:
        handle = _held.pop(os.path.realpath(folder), None)
        if handle is not None:
            os.close(handle)


@contextmanager
def holding(folder: Path, named: str) -> Generator[None]:
    """Hold a folder while the block lasts, also against other threads of this process.

    Raises:
        UserError: somebody holds it, or it cannot be written.
    """
    if not hold_folder(folder, named):
        raise UserError(f"{named}: this process writes there already")
    try:
        yield
    finally:
        release_folder(folder)


def _open(path: Path) -> int:
    # never removed: a lock on a file that another has taken away would hold nothing
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


def _sign(handle: int) -> None:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": now})
    os.ftruncate(handle, 0)
    os.pwrite(handle, f"{text}\n".encode(), 0)


def _holder(handle: int) -> str:
    """Return who holds a file, in words. One that has just begun is given time to sign."""
    for _ in range(_LOOKS):
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads(os.pread(handle, 4096, 0))
            pid = int(found["pid"])
            host = str(found["host"])
            if host != socket.gethostname() or Path(f"/proc/{pid}").exists():
                return f"process {pid} on {host[:200]!r}, since {str(found['since'])[:40]},"
        time.sleep(_LOOK_S)
    return "another process"


def _forget() -> None:
    """Let go of a parent's locks, which otherwise outlive it in a forked child."""
    for handle in _held.values():
        os.close(handle)
    _held.clear()


os.register_at_fork(after_in_child=_forget)
