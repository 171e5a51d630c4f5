"""Atomic writes of files and directories, and JSON files that end with their own checksum."""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import encodable

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers that mean the disk is full."""

_SHORT_WRITE = re.compile(
    r"\d+ requested and \d+ written|No space left on device|Disk quota exceeded"
)
_SCRATCH = r"\.[a-z0-9_]{8}\.(tmp|old)"
_SEAL = re.compile(rb',\n"checksum": "([0-9a-f]{64})"\n\}\n')
_SEAL_LENGTH = len(b',\n"checksum": ""\n}\n') + 64


def atomic_write(path: str | os.PathLike, content: bytes | str | Iterable[bytes]) -> Path:
    """Write `content` to `path` so that readers see the old file or the new one, never a part.

    The parent directory is created. Text is encoded as UTF-8; a lone surrogate, which UTF-8 cannot
    encode, becomes a question mark, so that hours of work are not lost to one broken character.
    Temporary files that killed processes left behind for this file are removed. An iterable is
    written piece by piece.

    Raises:
        UserError: the file cannot be written: the disk is full, or the folder is not writable.
    """
    target = Path(path)
    data = encodable(content).encode("utf-8") if isinstance(content, str) else content
    with writable(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with _scratch(target, ".tmp") as (temporary, handle):
            with os.fdopen(os.dup(handle), "wb") as file:
                file.writelines([data] if isinstance(data, bytes) else data)
                file.flush()
                os.fsync(file.fileno())
            os.fchmod(handle, 0o644)
            remove_leftovers(target)  # first: a kill right after `replace` then leaves nothing
            temporary.replace(target)
    return target


@contextmanager
def atomic_dir(path: str | os.PathLike) -> Generator[Path]:
    """Yield an empty directory that replaces `path` when the block ends without an error.

    Temporary directories that killed processes left behind are removed at that point.

    Raises:
        UserError: the directory cannot be written: the disk is full, or the parent is not writable.
    """
    target = Path(path)
    with writable(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target) as temporary:
            yield temporary
            temporary.chmod(0o755)
            remove_leftovers(target)
            if target.exists():
                # `rename` does not replace a directory that is not empty
                with scratch_folder(target, ".old") as retired:
                    target.replace(retired / "d")
                    temporary.replace(target)
            else:
                temporary.replace(target)


@contextmanager
def writable(path: Path) -> Generator[None]:
    """Turn an `OSError` of the block into a `UserError` that names the path and says what to do."""
    try:
        yield
    except OSError as error:
        full = disk_is_full(error)
        remedy = "free some space" if full else "make it writable, or choose another location"
        what = error.strerror or (f"No space left: {error}" if full else error)
        raise UserError(f"cannot write {path} ({what}): {remedy}") from error


def disk_is_full(error: OSError) -> bool:
    """Return whether a write failed because the disk is full.

    numpy's errors carry no error number; they are recognized by their message.
    """
    return error.errno in FULL or (error.errno is None and bool(_SHORT_WRITE.search(str(error))))


def remove_leftovers(target: Path) -> None:
    """Remove the temporary files and folders of processes killed while they wrote `target`."""
    pattern = re.compile(rf"\.{re.escape(target.name)}{_SCRATCH}")
    with suppress(FileNotFoundError, PermissionError):
        for name in os.listdir(target.parent):  # noqa: PTH208 - a path for each name would take most of the time
            if pattern.fullmatch(name):
                _remove(target.parent / name)


def _remove(path: Path) -> None:
    with suppress(OSError):
        is_folder = path.is_dir()
        handle = os.open(path, os.O_RDONLY if is_folder else os.O_RDWR)
        try:
            if _lock(handle, path):  # no process is writing it
                shutil.rmtree(path, ignore_errors=True) if is_folder else path.unlink()
        finally:
            os.close(handle)


@contextmanager
def scratch_folder(target: Path, suffix: str = ".tmp") -> Generator[Path]:
    """Create a locked directory next to `target` for the duration of the block, then remove it."""
    with _scratch(target, suffix, folder=True) as (path, _):
        yield path


@contextmanager
def _scratch(target: Path, suffix: str, *, folder: bool = False) -> Generator[tuple[Path, int]]:
    """Create a file or directory next to `target` and yield it with a locked handle; remove it."""
    while True:
        try:
            if folder:
                name = tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=suffix)
                handle = os.open(name, os.O_RDONLY)
            else:
                handle, name = tempfile.mkstemp(
                    dir=target.parent, prefix=f".{target.name}.", suffix=suffix
                )
        except FileNotFoundError:
            if not target.parent.exists():
                raise
            continue  # `remove_leftovers` of another process has just removed it
        if _lock(handle, path := Path(name)) is not False:
            break
        os.close(handle)  # likewise
    try:
        yield path, handle
    finally:
        shutil.rmtree(path, ignore_errors=True) if folder else path.unlink(missing_ok=True)
        os.close(handle)


def _lock(handle: int, path: Path) -> bool | None:
    """Lock a file or directory for as long as the handle is open; return True on success.

    False means that another process has locked or removed it, None that the file system has no
    locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def seal(json_object: str) -> str:
    """Append a member `checksum` to the text of a JSON object with at least one member."""
    body = json_object.rstrip().removesuffix("}").rstrip()
    return f'{body},\n"checksum": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


def is_sealed(data: bytes) -> bool:
    """Return whether a file carries a checksum.

    Raises:
        ValueError: the checksum does not match the content.
    """
    found = _SEAL.fullmatch(data[-_SEAL_LENGTH:])
    if found is None:
        # An intact checksum is at the very end; one anywhere else means that the file is damaged.
        if b'"checksum"' in data[-2 * _SEAL_LENGTH :]:
            raise ValueError("its checksum is broken")
        return False
    if hashlib.sha256(data[:-_SEAL_LENGTH]).hexdigest() != found[1].decode("ascii"):
        raise ValueError("its checksum does not match its content")
    return True
