"""OCR: words with their places out of pictures of pages, the engines that read them, and their cache."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import is_sealed, seal
from docagent_rl.documents.manifest import Box, is_inside
from docagent_rl.documents.objects import ObjectStore, write
from docagent_rl.documents.pdf import clean_text
from docagent_rl.documents.settings import OcrEngineKind, OcrMode, OcrSettings
from docagent_rl.documents.workers import require_memory

__all__ = [
    "DPI",
    "OcrCache",
    "OcrEngine",
    "OcrEngineKind",
    "OcrLine",
    "OcrMode",
    "OcrSettings",
    "Word",
    "engine_key",
    "make_engine",
]

DPI = 150
"""Resolution in pixels an inch that engines are given where a page can be drawn at any. rapidocr 3.10 reads
fewer words of 200 (0.81 instead of 0.99 of a dense page)."""
_DIGITS = 5
"""Decimal places of a fraction of a page: a tenth of a pixel of 10,000."""
_SPLIT = re.compile(r"(?<=\w)-\n(?=[a-zà-ÿ])")
_GIB = {OcrEngineKind.RAPIDOCR: 0.9, OcrEngineKind.TESSERACT: 0.1}
"""Address space that models, libraries and a page take."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a page, without white space."""

    text: str
    box: Box


@dataclass(frozen=True, slots=True)
class OcrLine:
    """A line of a page: words from left to right, at least one."""

    words: tuple[Word, ...]

    @property
    def text(self) -> str:
        """The words with blanks between them."""
        return " ".join(word.text for word in self.words)

    @property
    def box(self) -> Box:
        """The smallest box that holds all words."""
        return union(word.box for word in self.words)


class OcrEngine(Protocol):
    """A reader of pictures of pages; its work is on one thread."""

    key: str
    """Name, version and settings: the same key reads the same words in the same picture."""
    most_side: int
    """Pixels of the longer side; larger pictures are reduced to it."""
    margin: float
    """Height of the boxes of lines, as a multiple of that of their letters."""

    def read(self, image: Image.Image) -> tuple[OcrLine, ...]:
        """Return the lines of a picture in mode RGB, in reading order; none when it shows none.

        Raises:
            DocumentError: It cannot be read.
            MemoryError: That takes more memory than the process may take.
        """
        ...


def engine_key(settings: OcrSettings) -> str:
    """Return the `OcrEngine.key` of the engine that `settings` name, without starting it.

    Raises:
        UserError: The engine is not installed, or lacks the language.
    """
    if settings.engine is OcrEngineKind.TESSERACT:
        from docagent_rl.documents.ocr import tesseract

        return tesseract.key(settings.language)
    from docagent_rl.documents.ocr import rapid

    return rapid.key()


@lru_cache(maxsize=1)
def make_engine(settings: OcrSettings) -> OcrEngine:
    """Return the engine that `settings` name; kept, as starting one takes a second.

    Raises:
        UserError: It is not installed, or lacks the language.
        MemoryError: This process may not take as much memory as it needs.
    """
    require_memory(_GIB[settings.engine])
    if settings.engine is OcrEngineKind.TESSERACT:
        from docagent_rl.documents.ocr.tesseract import Tesseract

        return Tesseract(settings.language)
    from docagent_rl.documents.ocr.rapid import Rapid

    return Rapid()


@dataclass(frozen=True, slots=True)
class OcrCache:
    """The words of pictures, by a hash of the picture and the engine that read it.

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
        """Keep lines at once: an interrupted run reads no page twice."""
        words = self.objects.put(dump_words(lines))
        record = {"picture": picture, "engine": engine, "words": words}
        write(self._path(picture, engine), seal(json.dumps(record, indent=1)))

    def _path(self, picture: str, engine: str) -> Path:
        name = hashlib.sha256(f"{engine}\0{picture}".encode()).hexdigest()
        return self.root / name[:2] / f"{name}.json"


def reduced(image: Image.Image, most_side: int) -> Image.Image:
    """Return a copy in mode RGB with no side longer than `most_side`."""
    copy = image.convert("RGB")
    copy.thumbnail((most_side, most_side), Image.Resampling.LANCZOS)
    return copy


def union(boxes: Iterable[Box]) -> Box:
    """Return the smallest box that holds all of `boxes`, which are one or more."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def fractions(box: Sequence[float], size: tuple[int, int]) -> Box:
    """Return a box in pixels as fractions of an image's `(width, height)`, inside it and not empty."""
    left, right = _span(box[0] / size[0], box[2] / size[0])
    top, bottom = _span(box[1] / size[1], box[3] / size[1])
    return left, top, right, bottom


def _span(low: float, high: float) -> tuple[float, float]:
    step = 10.0**-_DIGITS
    low = round(min(max(low, 0.0), 1 - step), _DIGITS)
    high = round(min(max(high, 0.0), 1.0), _DIGITS)
    if math.isnan(low) or math.isnan(high):
        return 0.0, 1.0
    return low, max(high, round(low + step, _DIGITS))


def lines_of(texts: Iterable[Sequence[tuple[str, Box]]]) -> tuple[OcrLine, ...]:
    """Return lines of `(text, box)`, without words that hold nothing that can be written."""
    cleaned = (
        tuple(Word(word, box) for text, box in line if (word := "".join(clean_text(text).split())))
        for line in texts
    )
    return tuple(OcrLine(words) for words in cleaned if words)


def plain_text(lines: Sequence[OcrLine]) -> str:
    """Return the lines as text; words that a hyphen splits at a line's end are joined, as in text layers."""
    return clean_text(_SPLIT.sub("", "\n".join(line.text for line in lines))).strip()


def dump_words(lines: Sequence[OcrLine]) -> str:
    """Return lines as JSON: `[[text, left, top, right, bottom], ...]` each."""
    rows = [[[word.text, *word.box] for word in line.words] for line in lines]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def load_words(text: str) -> tuple[OcrLine, ...]:
    """Return the lines that `dump_words` wrote; a `ValueError` says that the text is something else."""
    try:
        return tuple(OcrLine(tuple(_word(*word) for word in line)) for line in json.loads(text))
    except TypeError as error:
        raise ValueError(str(error)) from error


def _word(text: str, *sides: float) -> Word:
    left, top, right, bottom = map(float, sides)
    box = left, top, right, bottom
    if not (isinstance(text, str) and is_inside(box)):
        raise ValueError(f"{text!r} in {sides} is no word of a page")
    return Word(text, box)
