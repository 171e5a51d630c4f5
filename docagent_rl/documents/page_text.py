"""The text of a page: of its text layer, or of its picture."""

from __future__ import annotations

import hashlib
import io
import re
import statistics
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from docagent_rl.documents.manifest import TextReading, TextReason, TextSource
from docagent_rl.documents.ocr import OcrCache, OcrEngine, OcrLine, make_engine, plain_text
from docagent_rl.documents.settings import DocumentError, OcrMode, OcrSettings
from docagent_rl.documents.text_layer import assess, is_blank
from docagent_rl.documents.typography import MEASURED, Line, Style
from docagent_rl.documents.workers import beat

_SMALLEST_SIDE = 8
"""Pixels of the shorter side below which a picture holds no letters."""
_MORE_TIMES = 1.25
_SAME_WORDS = 0.5
_LEAST_SHARE = 0.3
_PAGE_POINTS = 792.0
_ASCENT, _X_HEIGHT, _DESCENT = 0.72, 0.5, 0.21
_TALL, _DEEP = frozenset("bdfhijklt"), frozenset("gjpqy,;()[]{}|/Q")
_WORD = re.compile(r"\w{2,}")


@dataclass(frozen=True, slots=True)
class Layer:
    """The text layer of a page."""

    text: str = ""
    lines: tuple[Line, ...] = ()
    unmapped: float = 0.0
    """Share of its glyphs without a character."""
    hidden: Callable[[], bool] = lambda: False
    """Tells whether pictures or drawings on the page may show text that is not in it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """The picture of a page."""

    jpeg: bytes
    """As it is stored."""
    larger: Callable[[int], Image.Image | None] = lambda _: None
    """The page at the resolution that OCR asks for, with this many pixels on the longer side at most; None:
    the stored picture is as good."""

    def decoded(self) -> Image.Image:
        """Return the stored picture, mode RGB or L."""
        image = Image.open(io.BytesIO(self.jpeg), formats=("JPEG",))
        image.load()
        return image

    def grey(self) -> Image.Image:
        """Return the stored picture in mode L."""
        return self.decoded().convert("L")


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, its lines with their print, its words with their places, and its source."""

    text: str
    lines: tuple[Line, ...]
    words: tuple[OcrLine, ...]
    """Empty where the text is that of a text layer."""
    reading: TextReading


def read_page(name: str, picture: Picture, layer: Layer, settings: OcrSettings, cache: OcrCache) -> PageText:
    """Read the text of a page, named `page 12` or so; the engine is started when a page needs it.

    Raises:
        DocumentError: OCR fails on the page.
        UserError: The engine is not installed.
    """
    if settings.mode is OcrMode.NEVER:
        return _of_layer(layer, TextReason.OFF)
    state = assess(layer.text, layer.unmapped, layer.hidden, picture.grey)
    if state is TextReason.SOUND:
        if settings.mode is not OcrMode.ALWAYS:
            return _of_layer(layer, state)
        state = TextReason.ASKED
    grey = picture.grey()
    if is_blank(grey) or min(grey.size) < _SMALLEST_SIDE:
        return _of_layer(layer, TextReason.BLANK)
    beat(f"{name} (OCR)")
    engine = make_engine(settings)
    lines = _recognised(name, picture, engine, cache)
    if not lines:
        return _of_layer(layer, TextReason.NOTHING_READ, engine.key)
    if settings.mode is OcrMode.ALWAYS or is_better(lines, layer.text, state):
        reading = TextReading(TextSource.OCR, state, engine.key)
        return PageText(plain_text(lines), printed(lines, margin=engine.margin), lines, reading)
    return _of_layer(layer, TextReason.NO_BETTER, engine.key)


def _recognised(name: str, picture: Picture, engine: OcrEngine, cache: OcrCache) -> tuple[OcrLine, ...]:
    """Return the lines that the engine reads in a picture, or read before."""
    image, digest = picture.larger(engine.most_side), hashlib.sha256(picture.jpeg).hexdigest()
    if image is None:
        image = picture.decoded()
    else:
        image = image.convert("RGB")
        digest = hashlib.sha256(b"%d %d " % image.size + image.tobytes()).hexdigest()
    lines = cache.get(digest, engine.key)
    if lines is None:
        try:
            lines = engine.read(image)
        except DocumentError as error:
            raise DocumentError(f"{name}: {error}; --ocr never leaves its text out") from error
        cache.put(digest, engine.key, lines)
    return lines


def is_current(reading: TextReading | None, settings: OcrSettings, engine: str | None) -> bool:
    """Return whether a page with this reading (None: made without text) would be read like this again.

    `engine` is the `OcrEngine.key` of the engine that `settings` ask for; None when OCR is off.
    """
    if settings.mode is OcrMode.NEVER:
        return reading is None or reading.engine is None
    if reading is None:
        return False
    if reading.reason is TextReason.BLANK:
        return True
    by_it = reading.engine is not None and reading.engine == engine
    if settings.mode is OcrMode.ALWAYS:
        return by_it and reading.reason is not TextReason.NO_BETTER
    return reading.reason is TextReason.SOUND or (by_it and reading.reason is not TextReason.ASKED)


def is_better(lines: tuple[OcrLine, ...], layer: str, state: TextReason) -> bool:
    """Return whether the text that OCR read is to take the place of a text layer.

    An empty or garbled layer gives way to any word. One without letters gives way to more letters and digits
    than it has; a sparse one to 1.25 times as many; an unlikely one when fewer than half of its different
    words are read, and at least 0.3 times as many letters and digits.
    """
    text = plain_text(lines)
    read, held = (sum(map(str.isalnum, each)) for each in (text, layer))
    match state:
        case TextReason.NO_LETTERS:
            return read > held
        case TextReason.SPARSE:
            return read >= _MORE_TIMES * held
        case TextReason.UNLIKELY:
            seen, words = (set(_WORD.findall(each.casefold())) for each in (text, layer))
            agrees = bool(words) and len(words & seen) >= _SAME_WORDS * len(words)
            return read >= _LEAST_SHARE * held and not agrees
    return read > 0


def printed(lines: tuple[OcrLine, ...], *, margin: float) -> tuple[Line, ...]:
    """Return lines of OCR with the size of their letters, as points of a page 11 inches high.

    `margin` is the height of their boxes as a multiple of that of their letters (`OcrEngine.margin`).
    """
    found = []
    for line in lines:
        size = round(_size(line, margin) * _PAGE_POINTS, 1)
        baseline = round((1 - line.box[3]) * _PAGE_POINTS, 1)
        found.append(Line(line.text, Style(size, MEASURED, False, baseline), line.box))
    return tuple(found)


def _size(line: OcrLine, margin: float) -> float:
    """Return the size of the letters of a line as a fraction of the page's height.

    Where boxes are those of words, the median over letters: a bracket or a slant makes few of them tall.
    """
    if margin > 1:
        return (line.box[3] - line.box[1]) / (margin * _height(line.text))
    sizes = [(word.box[3] - word.box[1]) / _height(word.text) for word in line.words for _ in word.text]
    return statistics.median(sizes)


def _height(text: str) -> float:
    """Return the height of the letters of a line in ems, as in most fonts for text."""
    tall = any(letter in _TALL or not ("a" <= letter <= "z") for letter in text if letter.isalnum())
    return (_ASCENT if tall else _X_HEIGHT) + (_DESCENT if any(letter in _DEEP for letter in text) else 0.0)


def _of_layer(layer: Layer, reason: TextReason, engine: str | None = None) -> PageText:
    source = TextSource.LAYER if layer.text else TextSource.NONE
    return PageText(layer.text, layer.lines, (), TextReading(source, reason, engine))
