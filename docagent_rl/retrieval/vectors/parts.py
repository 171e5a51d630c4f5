"""Files of a folder of an index: written beside their place, read only where they are whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.vectors.sealed_headers import damaged_vectors


def part_damages(folder: Path, checksums: Mapping[str, str]) -> dict[Path, str]:
    """What is wrong with the files of a folder, by file."""
    found = {}
    for name, expected in sorted(checksums.items()):
        path = folder / name
        try:
            refuse_links(path)
            digest = _sha256(path)
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else None
            found[path] = f"cannot be read ({said or error})"
        else:
            if digest != expected:
                found[path] = "its checksum is that of other bytes"
    return found


def read_part(path: Path, files: IndexFiles, size: int | None = None) -> bytes:
    """The bytes of a file of an index.

    Raises:
        UserError: it is missing, a link to elsewhere, or not of that size.
    """
    try:
        refuse_links(path)
        with path.open("rb") as file:
            if size is not None and (found := os.fstat(file.fileno()).st_size) != size:
                raise ValueError(f"it has {found} bytes, not {size}")
            return file.read()
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else None
        raise damaged_vectors(path, said or str(error), files) from error


def place(folder: Path, target: Path) -> None:
    """Move a finished folder to its place, unless it is there whole."""
    for path in (*folder.iterdir(), folder):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    folder.chmod(0o755)
    if target.is_symlink() or target.is_file():
        target.unlink()
    elif target.exists():  # its files may be damaged, these are not
        shutil.rmtree(target)
    folder.replace(target)


class Scratch:
    """A folder in the index that is gone after the block, unless it was moved."""

    def __init__(self, root: Path) -> None:
        self._path = Path(tempfile.mkdtemp(dir=root, prefix=".", suffix=".tmp"))

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *error: object) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


_SETTLED_NS = 2_000_000_000
_verified: dict[tuple[int, ...], str] = {}


def _sha256(path: Path) -> str:
    """SHA-256 of a file; one that was read before and is the same file by all that the system says of it is
    not read again.
    """
    with path.open("rb") as file:
        stat = os.fstat(file.fileno())
        stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
        digest = _verified.get(stamp) or hashlib.file_digest(file, "sha256").hexdigest()
    # a file that is being written may keep its times for the tick of a clock
    if time.time_ns() - max(stat.st_ctime_ns, stat.st_mtime_ns) > _SETTLED_NS:
        _verified[stamp] = digest
    return digest


def refuse_links(path: Path) -> None:
    """See that a file is in the index itself.

    Raises:
        ValueError: it is a link.
    """
    if path.is_symlink() or path.parent.is_symlink():
        raise ValueError("it is a link, and an index has none")
