"""Content-addressed files: page rasters and page texts."""

import gzip
import hashlib
import os
import re
import secrets
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.io import writable
from docagent_rl.base.text import encodable

SHA256_PATTERN = "[0-9a-f]{64}"
_LEVEL = 6
"""Level of compression; higher levels hardly make a page of text smaller."""
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; one that cannot be read raises an `OSError`."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class ObjectKind(Enum):
    """The kinds of objects, by the suffix of their files."""

    IMAGE = ".jpg"
    TEXT = ".txt.gz"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Files named by the SHA-256 of their content, so that equal pages are stored once.

    Objects are written whole or not at all and never changed; any number of processes may read and
    write. Every read is verified against the name, which costs less than a tenth of decoding a
    page. A damaged object is written again by the next `put` of its content.

    Raises (all methods):
        UserError: The object is missing or damaged, cannot be written, or its name is not a
            SHA-256.
        InfrastructureError: The file system fails.
    """

    root: Path

    def put(self, content: bytes | str, batch: list[Path] | None = None) -> str:
        """Store a JPEG file or a text; return the SHA-256 of its bytes (a text's in UTF-8).

        The file is forced to disk at once, or added to `batch`, with which the caller calls
        `sync_to_disk`.
        """
        kind = ObjectKind.TEXT if isinstance(content, str) else ObjectKind.IMAGE
        data = content.encode("utf-8") if isinstance(content, str) else content
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest, kind)
        if not (path.is_file() and self.are_whole([(digest, kind)])):
            write_atomic(
                path, gzip.compress(data, _LEVEL, mtime=0) if kind is ObjectKind.TEXT else data
            )
        # an existing file may belong to another batch and not be forced yet
        if batch is None:
            sync_to_disk([path])
        else:
            batch.append(path)
        return digest

    def image(self, digest: str) -> bytes:
        """Return the JPEG file of a picture."""
        return self.read(digest, ObjectKind.IMAGE)

    def text(self, digest: str) -> str:
        """Return a stored text."""
        return self.read(digest, ObjectKind.TEXT).decode("utf-8")

    def read(self, digest: str, kind: ObjectKind) -> bytes:
        """Return the verified content of an object."""
        path = self.path(digest, kind)
        try:
            data = read_bytes(path)
            data = gzip.decompress(data) if kind is ObjectKind.TEXT else data
            if hashlib.sha256(data).hexdigest() != digest:
                raise ValueError("its content does not match its name, a SHA-256")
        except FileNotFoundError as error:
            raise UserError(f"missing object {path}: ingest the document again") from error
        except (ValueError, EOFError, OSError, zlib.error) as error:
            raise UserError(
                f"damaged object {path} ({error}): delete it and ingest the document again"
            ) from error
        return data

    def has(self, digest: str, kind: ObjectKind) -> bool:
        """Return whether an object exists, intact or not."""
        return self.path(digest, kind).is_file()

    def path(self, digest: str, kind: ObjectKind) -> Path:
        """Return the path of an object, whether it exists or not."""
        if not is_digest(digest):
            raise UserError(f"{digest!r} is not the name of a stored object")
        return self.root / digest[:2] / f"{digest}{kind.value}"

    def are_whole(self, objects: Iterable[tuple[str, ObjectKind]]) -> bool:
        """Return whether all objects exist and are intact."""
        try:
            for digest, kind in objects:
                self.read(digest, kind)
        except UserError:
            return False
        return True


def sync_to_disk(paths: Iterable[Path]) -> None:
    """Wait until files are on disk; call it before anything that refers to them is written.

    If the machine stops before that, some of them may be damaged.
    """
    for path in paths:
        with writable(path):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def is_digest(text: str) -> bool:
    """Return whether a text is a SHA-256 in hexadecimal digits."""
    return re.fullmatch(SHA256_PATTERN, text) is not None


def read_bytes(path: Path) -> bytes:
    """Read a file of a store.

    Raises:
        FileNotFoundError: The file does not exist.
        UserError: The file may not be read, or the path is no file.
        InfrastructureError: The file system fails.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except OSError as error:
        raise InfrastructureError(f"{path} cannot be read: {error}") from error


def write(path: Path, content: str) -> None:
    """Write a file as `write_atomic` does, and wait until it is on disk."""
    write_atomic(path, encodable(content).encode("utf-8"), forced=True)


def write_atomic(path: Path, data: bytes, *, forced: bool = False) -> None:
    """Write a file whole or not at all; `forced` waits until it is on disk.

    Otherwise the file may be damaged if the machine stops. `StoreLayout.remove_leftovers` cleans up
    after killed processes.

    Raises:
        UserError: The disk is full, or the folder cannot be written to.
    """
    # `StoreLayout.remove_leftovers` looks for such names; no two nodes choose the same one
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with writable(path):
        try:
            handle = os.open(scratch, _NEW)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(scratch, _NEW)
        try:
            with os.fdopen(handle, "wb", buffering=0) as file:
                left = memoryview(data)
                while left:
                    left = left[file.write(left) :]
                os.fchmod(handle, 0o644)
                if forced:
                    os.fsync(handle)
            scratch.replace(path)
        except BaseException:  # leave nothing behind, also after an interrupt
            scratch.unlink(missing_ok=True)
            raise
