"""Files that are either whole or absent, and JSON that ends with a checksum of all that stands
before it.
"""

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
"""Errors of a full disk."""

_SHORT_WRITE = re.compile(
    r"\d+ requested and \d+ written|No space left on device|Disk quota exceeded"
)
_SCRATCH = r"\.[a-z0-9_]{8}\.(tmp|old)"
_SEAL = re.compile(rb',\n"checksum": "([0-9a-f]{64})"\n\}\n')
_SEAL_LENGTH = len(b',\n"checksum": ""\n}\n') + 64


def atomic_write(path: str | os.PathLike, content: bytes | str | Iterable[bytes]) -> Path:
    """Write `content` to `path` so that readers see the old file or the new one, never a part.

    The parent directory is created. Text is encoded as UTF-8; what has no place in it, a lone
    surrogate, becomes a question mark: what was computed for hours is not lost for one broken
    character. What killed processes left of earlier writes of this file is removed. Pieces are
    written as they come.

    Raises:
        UserError: it cannot be written: the disk is full, or the folder may not be written to.
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
            remove_leftovers(target)  # before, so that a kill right after leaves nothing
            temporary.replace(target)
    return target


@contextmanager
def atomic_dir(path: str | os.PathLike) -> Generator[Path]:
    """Yield an empty directory that takes the place of `path` when the block ends without an error.

    Directories that killed processes left are removed then.

    Raises:
        UserError: it cannot be written: the disk is full, or the folder may not be written to.
    """
    target = Path(path)
    with writable(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch_folder(target) as temporary:
            yield temporary
            temporary.chmod(0o755)
            remove_leftovers(target)
            if target.exists():
                # `rename` refuses to replace a directory that is not empty
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
        remedy = "make room there" if full else "make it writable, or name another place"
        what = error.strerror or (f"No space left: {error}" if full else error)
        raise UserError(f"cannot write {path} ({what}): {remedy}") from error


def disk_is_full(error: OSError) -> bool:
    """Return whether a write failed for want of room. numpy's errors have no number, and count
    instead.
    """
    return error.errno in FULL or (error.errno is None and bool(_SHORT_WRITE.search(str(error))))


def remove_leftovers(target: Path) -> None:
    """Remove the leftovers of processes that were killed while they wrote `target`, file or
    directory.
    """
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
            if _lock(handle, path):  # nobody works on it
                shutil.rmtree(path, ignore_errors=True) if is_folder else path.unlink()
        finally:
            os.close(handle)


@contextmanager
def scratch_folder(target: Path, suffix: str = ".tmp") -> Generator[Path]:
    """Make a directory beside `target`, hold it while the block lasts, then remove it."""
    with _scratch(target, suffix, folder=True) as (path, _):
        yield path


@contextmanager
def _scratch(target: Path, suffix: str, *, folder: bool = False) -> Generator[tuple[Path, int]]:
    """Make a file or directory beside `target`; yield it with a handle that holds it, then remove
    it.
    """
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
            continue  # `remove_leftovers` of another process was faster
        if _lock(handle, path := Path(name)) is not False:
            break
        os.close(handle)  # as above
    try:
        yield path, handle
    finally:
        shutil.rmtree(path, ignore_errors=True) if folder else path.unlink(missing_ok=True)
        os.close(handle)


def _lock(handle: int, path: Path) -> bool | None:
    """Hold a file or directory as long as the handle is open.

    False: another process holds or has removed it; None: the file system has no locks.
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
    """Return a printed JSON object of at least one member with one more: its `checksum`."""
    body = json_object.rstrip().removesuffix("}").rstrip()
    return f'{body},\n"checksum": "{hashlib.sha256(body.encode()).hexdigest()}"\n}}\n'


def is_sealed(data: bytes) -> bool:
    """Return whether a file carries a checksum.

    Raises:
        ValueError: the checksum is that of other bytes.
    """
    found = _SEAL.fullmatch(data[-_SEAL_LENGTH:])
    if found is None:
        # a whole seal ends the file; another place or form is damage
        if b'"checksum"' in data[-2 * _SEAL_LENGTH :]:
            raise ValueError("its checksum is broken")
        return False
    if hashlib.sha256(data[:-_SEAL_LENGTH]).hexdigest() != found[1].decode("ascii"):
        raise ValueError("its checksum is that of other bytes")
    return True
