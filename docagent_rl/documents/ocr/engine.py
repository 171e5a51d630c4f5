"""What every engine does."""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

from PIL import Image

from docagent_rl.documents.memory import require
from docagent_rl.documents.ocr.settings import OcrEngineKind, OcrSettings
from docagent_rl.documents.ocr.words import OcrLine

DPI = 150
"""Resolution in pixels an inch that engines are given where a page can be drawn at any. rapidocr 3.10 reads
fewer words of 200 (0.81 instead of 0.99 of a dense page)."""
SMALLEST_SIDE = 8
"""Pixels of the shorter side below which a picture holds no letters."""


_GIB = {OcrEngineKind.RAPIDOCR: 0.9, OcrEngineKind.TESSERACT: 0.1}
"""Address space that models, libraries and a page take."""


class OcrEngine(Protocol):
    """Reads the picture of a page; its work is on one thread."""

    key: str
    """Name, version and settings: the same key reads the same words in the same picture."""
    most_side: int
    """Pixels of the longer side; larger pictures are reduced to it."""
    margin: float
    """How many times as high as their letters the boxes of lines are."""

    def read(self, image: Image.Image) -> tuple[OcrLine, ...]:
        """The lines of a picture in mode RGB, in reading order; none when it shows none.

        Raises:
            DocumentError: It cannot be read.
            MemoryError: That takes more memory than the process may take.
        """
        ...


def engine_key(settings: OcrSettings) -> str:
    """The `OcrEngine.key` of the engine that `settings` name, without starting it.

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
    """The engine that `settings` name; kept, as starting one takes a second.

    Raises:
        UserError: It is not installed, or lacks the language.
        MemoryError: This process may not take as much memory as it needs.
    """
    require(_GIB[settings.engine])
    if settings.engine is OcrEngineKind.TESSERACT:
        from docagent_rl.documents.ocr.tesseract import Tesseract

        return Tesseract(settings.language)
    from docagent_rl.documents.ocr.rapid import Rapid

    return Rapid()
