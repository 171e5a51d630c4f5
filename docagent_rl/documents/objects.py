"""Content-addressed files: page rasters and page texts."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write

SHA256_PATTERN = r"^[0-9a-f]{64}$"


@dataclass(frozen=True, slots=True)
class ObjectStore:
    """Files named by the SHA-256 of what they hold, so that equal pages are stored once.

    Objects are written whole or not at all and never changed; any number of processes may read and write.
    """

    root: Path

    def put_image(self, jpeg: bytes) -> str:
        """Store a JPEG file; returns the SHA-256 of its bytes."""
        digest = hashlib.sha256(jpeg).hexdigest()
        self._put(digest, ".jpg", jpeg)
        return digest

    def put_text(self, text: str) -> str:
        """Store a text, compressed; returns the SHA-256 of its UTF-8 encoding."""
        data = text.encode("utf-8")
        digest = hashlib.sha256(data).hexdigest()
        self._put(digest, ".txt.gz", gzip.compress(data, mtime=0))
        return digest

    def image(self, digest: str) -> bytes:
        """The bytes of a JPEG file.

        Raises:
            UserError: The object is missing.
        """
        return self._get(digest, ".jpg")

    def text(self, digest: str) -> str:
        """A stored text.

        Raises:
            UserError: The object is missing or damaged.
        """
        try:
            return gzip.decompress(self._get(digest, ".txt.gz")).decode("utf-8")
        except (gzip.BadGzipFile, EOFError, zlib.error, UnicodeDecodeError) as error:
            raise UserError(
                f"damaged object {self._path(digest, '.txt.gz')} ({error}): "
                "delete it and ingest the document again"
            ) from error

    def has_image(self, digest: str) -> bool:
        """Whether the raster is here."""
        return self._path(digest, ".jpg").is_file()

    def has_text(self, digest: str) -> bool:
        """Whether the text is here."""
        return self._path(digest, ".txt.gz").is_file()

    def _path(self, digest: str, suffix: str) -> Path:
        if not re.fullmatch(SHA256_PATTERN, digest):
            raise UserError(f"{digest!r} is not the name of a stored object")
        return self.root / digest[:2] / f"{digest}{suffix}"

    def _put(self, digest: str, suffix: str, data: bytes) -> None:
        path = self._path(digest, suffix)
        if not path.is_file():
            atomic_write(path, data)

    def _get(self, digest: str, suffix: str) -> bytes:
        path = self._path(digest, suffix)
        try:
            return path.read_bytes()
        except FileNotFoundError as error:
            raise UserError(f"missing object {path}: ingest the document again") from error
