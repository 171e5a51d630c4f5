"""Words with their places."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docagent_rl.documents.pdf import clean_text
from docagent_rl.documents.refs import Box

_DIGITS = 5
"""Decimal places of a fraction of a page: a tenth of a pixel of 10,000."""
_SPLIT = re.compile(r"(?<=\w)-\n(?=[a-zà-ÿ])")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a page.

    Args:
        text: without white space.
        box: where it is.
    """

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
        """What holds all words."""
        return union(word.box for word in self.words)


def union(boxes: Iterable[Box]) -> Box:
    """The smallest box that holds all of `boxes`, which are one or more."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def fractions(box: Sequence[float], size: tuple[int, int]) -> Box:
    """A box in pixels as fractions of an image's `(width, height)`, inside it and not empty."""
    left, right = _span(box[0] / size[0], box[2] / size[0])
    top, bottom = _span(box[1] / size[1], box[3] / size[1])
    return left, top, right, bottom


def lines_of(texts: Iterable[Sequence[tuple[str, Box]]]) -> tuple[OcrLine, ...]:
    """Lines of `(text, box)`, without words that hold nothing that can be written."""
    cleaned = (
        tuple(Word(word, box) for text, box in line if (word := "".join(clean_text(text).split())))
        for line in texts
    )
    return tuple(OcrLine(words) for words in cleaned if words)


def plain_text(lines: Sequence[OcrLine]) -> str:
    """The lines as text; words that a hyphen splits at a line's end are joined, as in text layers."""
    return clean_text(_SPLIT.sub("", "\n".join(line.text for line in lines))).strip()


def dump_words(lines: Sequence[OcrLine]) -> str:
    """Lines as JSON: `[[text, left, top, right, bottom], ...]` each."""
    rows = [[[word.text, *word.box] for word in line.words] for line in lines]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def load_words(text: str) -> tuple[OcrLine, ...]:
    """What `dump_words` wrote.

    Raises:
        ValueError: it is something else.
    """
    try:
        return tuple(OcrLine(tuple(_word(*word) for word in line)) for line in json.loads(text))
    except TypeError as error:
        raise ValueError(str(error)) from error


def _word(text: str, *sides: float) -> Word:
    left, top, right, bottom = (float(side) for side in sides)
    if not (isinstance(text, str) and 0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise ValueError(f"{text!r} in {sides} is no word of a page")
    return Word(text, (left, top, right, bottom))


def _span(low: float, high: float) -> tuple[float, float]:
    step = 10.0**-_DIGITS
    low = round(min(max(low, 0.0), 1 - step), _DIGITS)
    high = round(min(max(high, 0.0), 1.0), _DIGITS)
    if math.isnan(low) or math.isnan(high):
        return 0.0, 1.0
    return low, max(high, round(low + step, _DIGITS))
