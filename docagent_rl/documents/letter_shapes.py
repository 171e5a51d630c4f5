"""Detection of fonts that map glyphs to wrong characters, by the shapes of the glyphs."""

import ctypes
import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium_c

_FEWEST_WIDE = 8
_FEWEST_SMALL = 10
"""Minimum number of different letters for a verdict."""
_SQUARE = 0.55
"""Minimum median width, relative to the line's height, of letters in a script of square letters."""
_SURELY_SQUARE = 0.9
_UNEVEN = 0.4
"""Spread of the middle four fifths of widths, relative to the median, that such a script does not
reach.
"""
_CONTRADICTED_SHARE = 0.4
_RARE_SHARE = 0.5
_LEVEL = "acemnorsuvwxz"
_TALL = "bdfhkl"
_HANGING = "gpqy"
_PLACES = 4
"""Number of occurrences of a letter (or a few more) whose shapes are looked at."""
_UPRIGHT = 0.01
"""Maximum angle of a letter to the horizontal, in radians; others are ignored."""


class _Shape(NamedTuple):
    """A glyph's outline, as fractions of the height of its line."""

    width: float
    """Width of the space that it takes up."""
    above: float
    """From the base line to its top."""
    below: float
    """From the base line to its bottom, downwards."""


def is_wrongly_mapped(
    textpage: pypdfium2.PdfTextPage, letters: Mapping[str, Sequence[int]]
) -> bool:
    """Return whether the letters of a page are probably not those that its glyphs show.

    Any of these makes them so:

    - East Asian letters that are narrow, or of many widths: those scripts fill squares.
    - Small Latin letters of which two fifths have an impossible outline: an `o` that hangs below
      the line, a `p` that does not, a `b` as low as an `o`.
    - Half of all letters are rare (Latin Extended-B, IPA): glyph numbers were taken for characters.

    Args:
        textpage: the text layer.
        letters: the letters to look at, with the indices of some of their occurrences
            (`glyphs.sample_letters`).
    """
    if not letters:
        return False
    rare = sum(0x0180 <= ord(letter) < 0x02B0 for letter in letters)
    if rare >= max(_RARE_SHARE * len(letters), _FEWEST_WIDE):
        return True
    glyphs = _Glyphs(textpage)
    wide = [letter for letter in letters if _is_wide(letter)]
    if len(wide) >= _FEWEST_WIDE:
        widths = [shape.width for letter in wide if (shape := glyphs.shape(letters[letter]))]
        return len(widths) >= _FEWEST_WIDE and not _are_square(widths)
    small = [letter for letter in _LEVEL + _TALL + _HANGING if letter in letters]
    if len(small) < _FEWEST_SMALL:
        return False
    return _contradicts({each: shape for each in small if (shape := glyphs.shape(letters[each]))})


def _is_wide(letter: str) -> bool:
    code = ord(letter)
    return 0x3041 <= code <= 0x30FF or 0x3400 <= code <= 0x9FFF or 0xAC00 <= code <= 0xD7A3


def _are_square(widths: Sequence[float]) -> bool:
    usual = statistics.median(widths)
    tenths = statistics.quantiles(widths, n=10)
    if usual >= _SURELY_SQUARE:
        return True  # also for vertical columns, in which the heights of lines vary
    return usual >= _SQUARE and tenths[-1] - tenths[0] < _UNEVEN * usual


def _contradicts(shapes: Mapping[str, _Shape]) -> bool:
    level = [shapes[letter].above for letter in _LEVEL if letter in shapes]
    if len(shapes) < _FEWEST_SMALL or not level:
        return False
    usual = statistics.median(level)
    heights = [shape.above for shape in shapes.values()]
    if usual < 0.1 or max(heights) - min(heights) < 0.15 * usual:
        return False  # a mirrored font, or small capitals
    wrong = 0
    for letter, shape in shapes.items():
        if letter in _LEVEL:
            wrong += shape.below > 0.12 or shape.above > 1.25 * usual
        elif letter in _TALL:
            wrong += shape.above < 1.12 * usual
        else:
            wrong += shape.below < 0.04
    return wrong >= _CONTRADICTED_SHARE * len(shapes)


class _Glyphs:
    """The glyphs of a page; ctypes' objects and references are made once for all of them."""

    def __init__(self, textpage: pypdfium2.PdfTextPage) -> None:
        self._textpage = textpage.raw
        self._numbers = [ctypes.c_double() for _ in range(6)]
        self._references = [ctypes.byref(number) for number in self._numbers]
        self._line = pdfium_c.FS_RECTF()
        self._line_reference = ctypes.byref(self._line)

    def shape(self, places: Sequence[int]) -> _Shape | None:
        """Return the median shape of a letter; None if none of its occurrences is upright."""
        some = places[:: max(1, len(places) // _PLACES)]
        shapes = [shape for index in some if (shape := self._shape_at(index))]
        if not shapes:
            return None
        return _Shape(*(statistics.median(part) for part in zip(*shapes, strict=True)))

    def _shape_at(self, index: int) -> _Shape | None:
        if abs(pdfium_c.FPDFText_GetCharAngle(self._textpage, index)) > _UPRIGHT:
            return None
        pdfium_c.FPDFText_GetCharBox(self._textpage, index, *self._references[:4])
        pdfium_c.FPDFText_GetCharOrigin(self._textpage, index, *self._references[4:])
        pdfium_c.FPDFText_GetLooseCharBox(self._textpage, index, self._line_reference)
        _, _, bottom, top, _, base = (number.value for number in self._numbers)
        line = self._line
        height = line.top - line.bottom
        if height <= 0 or top <= bottom:
            return None
        return _Shape(
            (line.right - line.left) / height, (top - base) / height, (base - bottom) / height
        )
