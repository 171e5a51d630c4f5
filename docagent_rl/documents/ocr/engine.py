"""The interface of engines."""

from __future__ import annotations

from typing import Protocol

from PIL import Image

from docagent_rl.documents.ocr.words import OcrLine

DPI = 150
"""Resolution in pixels an inch that engines are given where a page can be drawn at any. rapidocr 3.10 reads
fewer words of 200 (0.81 instead of 0.99 of a dense page)."""


class OcrEngine(Protocol):
    """Reads the picture of a page; its work is on one thread."""

    key: str
    """Name, version and settings: the same key reads the same words in the same picture."""
    most_side: int
    """Pixels of the longer side; larger pictures are reduced to it."""
    margin: float
    """How many times as high as their letters the boxes of lines are."""

    def read(self, image: Image.Image) -> tuple[OcrLine, ...]:
        """Return the lines of a picture in mode RGB, in reading order; none when it shows none.

        Raises:
            DocumentError: It cannot be read.
            MemoryError: That takes more memory than the process may take.
        """
        ...


def reduced(image: Image.Image, most_side: int) -> Image.Image:
    """Return a copy in mode RGB with no side longer than `most_side`."""
    copy = image.convert("RGB")
    copy.thumbnail((most_side, most_side), Image.Resampling.LANCZOS)
    return copy
