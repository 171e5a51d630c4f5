"""The text of a page: of its text layer, or of its picture."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from docagent_rl.documents.manifest import TextReading, TextReason, TextSource
from docagent_rl.documents.ocr import engine_name, read_picture
from docagent_rl.documents.settings import DocumentError, OcrMode
from docagent_rl.documents.text_layer import assess, is_blank
from docagent_rl.documents.workers import beat

_SMALLEST_SIDE = 8
"""Pixels of the shorter side below which a picture holds no letters."""
_MORE_TIMES = 1.25


@dataclass(frozen=True, slots=True)
class Layer:
    """The text layer of a page."""

    text: str = ""
    unmapped: float = 0.0
    """Share of its glyphs without a character."""
    hidden: Callable[[], bool] = lambda: False
    """Tells whether pictures or drawings on the page may show text that is not in it."""


def read_page(name: str, jpeg: bytes, layer: Layer, mode: OcrMode) -> tuple[str, TextReading]:
    """Read the text of a page, named `page 12` or so; the engine is started when a page needs it.

    Raises:
        DocumentError: OCR fails on the page.
        UserError: The engine is not installed.
    """
    if mode is OcrMode.NEVER:
        return _of_layer(layer, TextReason.OFF)
    state = assess(layer.text, layer.unmapped, layer.hidden)
    if state is TextReason.SOUND:
        if mode is not OcrMode.ALWAYS:
            return _of_layer(layer, state)
        state = TextReason.ASKED
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as picture:
        if is_blank(picture.convert("L")) or min(picture.size) < _SMALLEST_SIDE:
            return _of_layer(layer, TextReason.BLANK)
        beat(f"{name} (OCR)")
        try:
            text = read_picture(picture)
        except DocumentError as error:
            raise DocumentError(f"{name}: {error}; --ocr never leaves its text out") from error
    if not text:
        return _of_layer(layer, TextReason.NOTHING_READ, engine_name())
    if is_better(text, layer.text, state):
        return text, TextReading(TextSource.OCR, state, engine_name())
    return _of_layer(layer, TextReason.NO_BETTER, engine_name())


def is_better(text: str, layer: str, state: TextReason) -> bool:
    """Return whether a text that OCR read is to take the place of a text layer.

    A sparse layer gives way to 1.25 times as many letters and digits as it has; others to any.
    """
    read, held = (sum(map(str.isalnum, each)) for each in (text, layer))
    return read >= _MORE_TIMES * held if state is TextReason.SPARSE else read > 0


def _of_layer(layer: Layer, reason: TextReason, engine: str | None = None) -> tuple[str, TextReading]:
    source = TextSource.LAYER if layer.text else TextSource.NONE
    return layer.text, TextReading(source, reason, engine)
