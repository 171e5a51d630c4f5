"""Content-addressed files: page rasters and page texts."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.writing import force, place

SHA256_PATTERN = "[0-9a-f]{64}"
_LEVEL = 6
"""Of compression: what more of it takes from a page of text is not to be seen."""


class Kind(Enum):
    """What an object is, by the end of its file's name."""

    IMAGE = ".jpg"
    TEXT = ".txt.gz"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Files named by the SHA-256 of what they hold, so that equal pages are stored once.

    Objects are written whole or not at all and never changed; any number of processes may read and write.
    Every read is verified against the name, which costs less than a tenth of decoding a page. An object that
    holds something else is written anew by the next `put` of what its name says. `batch` is for many objects.
    """

    root: Path

    def batch(self) -> ObjectBatch:
        """A writer of many objects."""
        return ObjectBatch(self)

    def put_image(self, jpeg: bytes) -> str:
        """Store a JPEG file; returns the SHA-256 of its bytes.

        Raises:
            UserError: It cannot be written.
        """
        batch = self.batch()
        digest = batch.put_image(jpeg)
        batch.force()
        return digest

    def put_text(self, text: str) -> str:
        """Store a text, compressed; returns the SHA-256 of its UTF-8 encoding.

        Raises:
            UserError: It cannot be written.
        """
        batch = self.batch()
        digest = batch.put_text(text)
        batch.force()
        return digest

    def image(self, digest: str) -> bytes:
        """The bytes of a JPEG file.

        Raises:
            UserError: The object is missing or damaged.
        """
        path = self.path(digest, Kind.IMAGE)
        return _verified(self._get(path), digest, path)

    def text(self, digest: str) -> str:
        """A stored text.

        Raises:
            UserError: The object is missing or damaged.
        """
        path = self.path(digest, Kind.TEXT)
        try:
            data = _unpacked(self._get(path))
        except (ValueError, zlib.error) as error:
            raise _damaged(path, str(error)) from error
        return _verified(data, digest, path).decode("utf-8")

    def has_image(self, digest: str) -> bool:
        """Whether the raster is here, whole or not."""
        return self.path(digest, Kind.IMAGE).is_file()

    def has_text(self, digest: str) -> bool:
        """Whether the text is here, whole or not."""
        return self.path(digest, Kind.TEXT).is_file()

    def path(self, digest: str, kind: Kind) -> Path:
        """The file of an object, there or not.

        Raises:
            UserError: `digest` is not a SHA-256.
        """
        if not is_digest(digest):
            raise UserError(f"{digest!r} is not the name of a stored object")
        return self.root / digest[:2] / f"{digest}{kind.value}"

    def verify(self, digest: str, kind: Kind) -> None:
        """Read an object.

        Raises:
            UserError: It is missing or damaged.
        """
        if kind is Kind.IMAGE:
            self.image(digest)
        else:
            self.text(digest)

    @staticmethod
    def _get(path: Path) -> bytes:
        try:
            return read_bytes(path)
        except FileNotFoundError as error:
            raise UserError(f"missing object {path}: ingest the document again") from error


class ObjectBatch:
    """Objects that are written one after the other and forced to disk together.

    They can be read at once. A machine that stops before `force` may leave some of them damaged: what names
    them is written after it.
    """

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._written: list[Path] = []

    def put_image(self, jpeg: bytes) -> str:
        """As `ObjectStore.put_image`."""
        digest = hashlib.sha256(jpeg).hexdigest()
        self._put(digest, Kind.IMAGE, jpeg)
        return digest

    def put_text(self, text: str) -> str:
        """As `ObjectStore.put_text`."""
        data = text.encode("utf-8")
        digest = hashlib.sha256(data).hexdigest()
        self._put(digest, Kind.TEXT, gzip.compress(data, _LEVEL, mtime=0))
        return digest

    def force(self) -> None:
        """Wait until all is on disk, where a crash of the machine leaves it as it is.

        Raises:
            UserError: The disk is full, or the system fails to write.
        """
        for path in self._written:
            force(path)
        self._written.clear()

    def _put(self, digest: str, kind: Kind, data: bytes) -> None:
        path = self._objects.path(digest, kind)
        # what is there may be of another batch, not forced yet
        self._written.append(path)
        if path.is_file():
            try:
                self._objects.verify(digest, kind)
            except UserError:
                pass  # damaged: written anew
            else:
                return
        place(path, data)


def is_digest(text: str) -> bool:
    """Whether it is a SHA-256 in hexadecimal digits."""
    return re.fullmatch(SHA256_PATTERN, text) is not None


def read_bytes(path: Path) -> bytes:
    """A file of a store.

    Raises:
        FileNotFoundError: There is no such file.
        UserError: It may not be read, or is no file.
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


def _unpacked(packed: bytes) -> bytes:
    """What one gzip stream holds; `gzip.decompress` passes over zeros behind it."""
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    data = stream.decompress(packed)
    if not stream.eof or stream.unused_data:
        raise ValueError("it goes on behind its end" if stream.eof else "it ends too early")
    return data


def _verified(data: bytes, digest: str, path: Path) -> bytes:
    if hashlib.sha256(data).hexdigest() != digest:
        raise _damaged(path, "it holds something else than its name, a SHA-256, says")
    return data


def _damaged(path: Path, problem: str) -> UserError:
    return UserError(f"damaged object {path} ({problem}): delete it and ingest the document again")
