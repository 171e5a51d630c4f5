"""The text of a page: of its text layer, or of its picture."""

from __future__ import annotations

import hashlib
import io
import re
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.heartbeat import beat
from docagent_rl.documents.ocr import OcrEngine, OcrLine, OcrMode, OcrSettings, make_engine
from docagent_rl.documents.ocr.cache import OcrCache
from docagent_rl.documents.ocr.engine import SMALLEST_SIDE
from docagent_rl.documents.ocr.words import plain_text
from docagent_rl.documents.reading import TextReading, TextReason, TextSource
from docagent_rl.documents.text_layer import assess, is_blank
from docagent_rl.documents.typography import MEASURED, Line, Style

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
    """Whether pictures or drawings on the page may show text that is not in it."""


@dataclass(frozen=True, slots=True)
class Picture:
    """What a page looks like."""

    jpeg: bytes
    """As it is stored."""
    larger: Callable[[int], Image.Image | None] = lambda _: None
    """The page at the resolution that OCR asks for, with this many pixels on the longer side at most; None:
    the stored picture is as good."""

    def decoded(self) -> Image.Image:
        """The stored picture, mode RGB or L."""
        image = Image.open(io.BytesIO(self.jpeg), formats=("JPEG",))
        image.load()
        return image

    def grey(self) -> Image.Image:
        """The stored picture in mode L."""
        return self.decoded().convert("L")


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page, its lines with their print, its words with their places, and where it is from."""

    text: str
    lines: tuple[Line, ...]
    words: tuple[OcrLine, ...]
    """Empty where the text is that of a text layer."""
    reading: TextReading


class PageReader:
    """Reads pages under one set of settings; the engine is started when a page needs it."""

    def __init__(self, settings: OcrSettings, cache: OcrCache) -> None:
        self._settings = settings
        self._cache = cache

    def read(self, name: str, picture: Picture, layer: Layer) -> PageText:
        """The text of a page.

        Args:
            name: `page 12`, for errors and signs of life.
            picture: what it looks like.
            layer: its text layer; an empty one if it has none.

        Raises:
            DocumentError: OCR fails on the page.
            UserError: The engine is not installed.
        """
        if self._settings.mode is OcrMode.NEVER:
            return _of_layer(layer, TextReason.OFF)
        state = assess(layer.text, layer.unmapped, layer.hidden, picture.grey)
        if state is TextReason.SOUND:
            if self._settings.mode is not OcrMode.ALWAYS:
                return _of_layer(layer, state)
            state = TextReason.ASKED
        grey = picture.grey()
        if is_blank(grey) or min(grey.size) < SMALLEST_SIDE:
            return _of_layer(layer, TextReason.BLANK)
        engine, lines = self._seen(name, picture)
        if not lines:
            return _of_layer(layer, TextReason.NOTHING_READ, engine.key)
        if self._settings.mode is OcrMode.ALWAYS or is_better(lines, layer.text, state):
            reading = TextReading(TextSource.OCR, state, engine.key)
            return PageText(plain_text(lines), printed(lines, margin=engine.margin), lines, reading)
        return _of_layer(layer, TextReason.NO_BETTER, engine.key)

    def _seen(self, name: str, picture: Picture) -> tuple[OcrEngine, tuple[OcrLine, ...]]:
        """The engine, and what it reads in a picture or read before."""
        beat(f"{name} (OCR)")
        engine = make_engine(self._settings)
        image, digest = picture.larger(engine.most_side), hashlib.sha256(picture.jpeg).hexdigest()
        if image is None:
            image = picture.decoded()
        else:
            image = image.convert("RGB")
            digest = hashlib.sha256(b"%d %d " % image.size + image.tobytes()).hexdigest()
        lines = self._cache.get(digest, engine.key)
        if lines is None:
            try:
                lines = engine.read(image)
            except DocumentError as error:
                raise DocumentError(f"{name}: {error}; --ocr never leaves its text out") from error
            self._cache.put(digest, engine.key, lines)
        return engine, lines


def is_current(reading: TextReading | None, settings: OcrSettings, engine: str | None) -> bool:
    """Whether a page that was read like this would be read like this again.

    Args:
        reading: None for pages of versions that did not tell.
        settings: of the OCR that is asked for.
        engine: `OcrEngine.key` of it; None when it is off.
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
    """Whether what OCR read is to take the place of a text layer.

    An empty or garbled layer gives way to any word. One without letters gives way to more letters and digits
    than it has; a sparse one to 1.25 times as many; an unlikely one when fewer than half of its different
    words are read, and at least 0.3 times as many letters and digits.
    """
    read, held = (sum(map(str.isalnum, text)) for text in (plain_text(lines), layer))
    match state:
        case TextReason.NO_LETTERS:
            return read > held
        case TextReason.SPARSE:
            return read >= _MORE_TIMES * held
        case TextReason.UNLIKELY:
            return read >= _LEAST_SHARE * held and not _agrees(plain_text(lines), layer)
    return read > 0


def printed(lines: tuple[OcrLine, ...], *, margin: float) -> tuple[Line, ...]:
    """Lines with the size of their letters, as points of a page 11 inches high.

    Args:
        lines: what OCR read.
        margin: how many times as high as their letters boxes are (`OcrEngine.margin`).
    """
    found = []
    for line in lines:
        left, top, right, bottom = line.box
        size = round(_size(line, margin) * _PAGE_POINTS, 1)
        baseline = round((1 - bottom) * _PAGE_POINTS, 1)
        found.append(Line(line.text, Style(size, MEASURED, False, baseline), (left, top, right, bottom)))
    return tuple(found)


def _size(line: OcrLine, margin: float) -> float:
    """Size of the letters of a line as a fraction of the page's height.

    Where boxes are those of words, the median over letters: a bracket or a slant makes few of them tall.
    """
    if margin > 1:
        return (line.box[3] - line.box[1]) / (margin * _height(line.text))
    sizes = [(word.box[3] - word.box[1]) / _height(word.text) for word in line.words for _ in word.text]
    return statistics.median(sizes)


def _height(text: str) -> float:
    """Height of the letters of a line in ems, as in most fonts for text."""
    tall = any(
        character in _TALL or not ("a" <= character <= "z") for character in text if character.isalnum()
    )
    return (_ASCENT if tall else _X_HEIGHT) + (_DESCENT if any(letter in _DEEP for letter in text) else 0.0)


def _of_layer(layer: Layer, reason: TextReason, engine: str | None = None) -> PageText:
    source = TextSource.LAYER if layer.text else TextSource.NONE
    return PageText(layer.text, layer.lines, (), TextReading(source, reason, engine))


def _agrees(read: str, layer: str) -> bool:
    seen, held = (Counter(_WORD.findall(text.casefold())) for text in (read, layer))
    return bool(held) and sum(word in seen for word in held) >= _SAME_WORDS * len(held)
