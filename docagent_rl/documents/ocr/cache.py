"""What was read before."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.sealed import is_sealed, seal
from docagent_rl.documents.objects import ObjectStore, is_digest
from docagent_rl.documents.ocr.words import OcrLine, dump_words, load_words
from docagent_rl.documents.writing import write


@dataclass(frozen=True, slots=True)
class OcrCache:
    """The words of pictures, by what the picture holds and what read it.

    A record names the object of the words. Where either is damaged, it is as if it was not there.
    """

    root: Path
    objects: ObjectStore

    def get(self, picture: str, engine: str) -> tuple[OcrLine, ...] | None:
        """The lines that `engine` read in a picture.

        Args:
            picture: SHA-256 of it.
            engine: `OcrEngine.key`.
        """
        try:
            data = self._path(picture, engine).read_bytes()
            if not is_sealed(data):
                return None
            record = json.loads(data)
            if (record["picture"], record["engine"]) != (picture, engine) or not is_digest(record["words"]):
                return None
            return load_words(self.objects.text(record["words"]))
        except (OSError, UserError, ValueError, KeyError, TypeError):
            return None

    def put(self, picture: str, engine: str, lines: Sequence[OcrLine]) -> None:
        """Keep what was read, at once: an interrupted run reads no page twice.

        Raises:
            UserError: It cannot be written.
        """
        words = self.objects.put_text(dump_words(lines))
        record = {"picture": picture, "engine": engine, "words": words}
        write(self._path(picture, engine), seal(json.dumps(record, indent=1)))

    def _path(self, picture: str, engine: str) -> Path:
        name = hashlib.sha256(f"{engine}\0{picture}".encode()).hexdigest()
        return self.root / name[:2] / f"{name}.json"
