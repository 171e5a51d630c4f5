"""Stamps and hashes of the files from which documents are made."""

import hashlib
import stat
from functools import partial
from pathlib import Path

from docagent_rl.documents.settings import DocumentError
from docagent_rl.documents.workers import begin_part

_BLOCK = 1 << 23
Stamp = tuple[tuple[int, int], ...]
"""(size, modification time in ns) of each file."""


def stamp_of(files: tuple[Path, ...]) -> Stamp:
    """Return sizes and modification times, to notice changes of files without reading them.

    Raises:
        DocumentError: One of them is a pipe, a socket or a device.
        OSError: The status of one cannot be read.
    """
    found = [path.stat() for path in files]
    for path, status in zip(files, found, strict=True):
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would block for ever
            raise DocumentError(f"{path.name} is not a regular file")
    return tuple((status.st_size, status.st_mtime_ns) for status in found)


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(partial(file.read, _BLOCK), b""):
            begin_part(path.name)
            digest.update(block)
    return digest.hexdigest()


def unreadable(error: OSError) -> DocumentError:
    """Return the error for a document with a file that cannot be read."""
    name = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
    return DocumentError(f"cannot be read ({name}{error.strerror or error})")
