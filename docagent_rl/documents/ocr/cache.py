"""The cache of OCR: words by picture and engine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import is_sealed, seal
from docagent_rl.documents.objects import ObjectStore, write
from docagent_rl.documents.ocr.words import OcrLine, dump_words, load_words


@dataclass(frozen=True, slots=True)
class OcrCache:
    """The words of pictures, by what the picture holds and what read it.

    A record names the object of the words. Where either is damaged, it is as if it was not there.
    """

    root: Path
    objects: ObjectStore

    def get(self, picture: str, engine: str) -> tuple[OcrLine, ...] | None:
        """Return the lines that `engine` (`OcrEngine.key`) read in a picture, named by its SHA-256."""
        try:
            data = self._path(picture, engine).read_bytes()
            record = json.loads(data)
            if not is_sealed(data) or (record["picture"], record["engine"]) != (picture, engine):
                return None
            return load_words(self.objects.text(record["words"]))
        except (OSError, UserError, ValueError, KeyError, TypeError):
            return None

    def put(self, picture: str, engine: str, lines: Sequence[OcrLine]) -> None:
        """Keep what was read, at once: an interrupted run reads no page twice.

        Raises:
            UserError: It cannot be written.
        """
        words = self.objects.put(dump_words(lines))
        record = {"picture": picture, "engine": engine, "words": words}
        write(self._path(picture, engine), seal(json.dumps(record, indent=1)))

    def _path(self, picture: str, engine: str) -> Path:
        name = hashlib.sha256(f"{engine}\0{picture}".encode()).hexdigest()
        return self.root / name[:2] / f"{name}.json"
