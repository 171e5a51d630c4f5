"""The projection of a PDF page's coordinates to pixels of its picture."""

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.settings import Size

_FINE = 16
"""Fractions of a pixel to ask PDFium for, which rounds coordinates to whole numbers."""
_FLAT = 0.02
"""Maximum side of a glyph's box, relative to its space in the line, of a glyph without outline."""
_SURELY_SOLID = 0.5
"""Side in points above which a glyph certainly has an outline."""


class Box(NamedTuple):
    """A rectangle in pixels of a page's picture; the origin is the upper left corner."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        """Pixels from top to bottom."""
        return self.bottom - self.top

    @property
    def middle(self) -> tuple[float, float]:
        """The point `(x, y)` in its middle."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def inner(self) -> "Box":
        """Return its middle half in both directions, which neighbouring glyphs do not reach."""
        across = (self.right - self.left) / 4
        down = (self.bottom - self.top) / 4
        return Box(self.left + across, self.top + down, self.right - across, self.bottom - down)

    def contains(self, point: tuple[float, float]) -> bool:
        """Return whether a point `(x, y)` is in it."""
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


def enclosing(boxes: Sequence[Box]) -> Box:
    """Return the smallest box around all of them; there must be one."""
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return Box(min(lefts), min(tops), max(rights), max(bottoms))


class Projection:
    """The map from points of a page, which may be cropped and turned, to pixels of its picture."""

    def __init__(self, page: pypdfium2.PdfPage, size: Size) -> None:
        self.size = size
        self._page = page
        self._origin = self._device(0, 0)
        far = 1000
        x_axis = self._device(far, 0)
        y_axis = self._device(0, far)
        self._x = tuple(
            (end - start) / far for end, start in zip(x_axis, self._origin, strict=True)
        )
        self._y = tuple(
            (end - start) / far for end, start in zip(y_axis, self._origin, strict=True)
        )

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        """Return the box of a rectangle of the page."""
        # written out, since it is computed for every character
        x, y = self._origin
        x_across, x_down = self._x
        y_across, y_down = self._y
        first_x = x + left * x_across + bottom * y_across
        second_x = x + right * x_across + top * y_across
        first_y = y + left * x_down + bottom * y_down
        second_y = y + right * x_down + top * y_down
        if first_x > second_x:
            first_x, second_x = second_x, first_x
        if first_y > second_y:
            first_y, second_y = second_y, first_y
        return Box(first_x, first_y, second_x, second_y)

    def _device(self, x: float, y: float) -> tuple[float, float]:
        width, height = self.size
        across = ctypes.c_int()
        down = ctypes.c_int()
        pdfium_c.FPDF_PageToDevice(
            self._page, 0, 0, width * _FINE, height * _FINE, 0, x, y, across, down
        )
        return across.value / _FINE, down.value / _FINE


class TextBoxes:
    """The boxes of the characters of a text page, by index.

    Thousands of characters are asked for, so ctypes' objects and references are made only once.
    """

    def __init__(self, textpage: pypdfium2.PdfTextPage, projection: Projection) -> None:
        self._textpage = textpage.raw
        self._projection = projection
        self._loose = pdfium_c.FS_RECTF()
        self._loose_reference = ctypes.byref(self._loose)
        self._sides = [ctypes.c_double() for _ in range(4)]
        self._side_references = [ctypes.byref(side) for side in self._sides]

    def loose(self, index: int) -> Box:
        """Return the box that a character takes up in its line, whatever its glyph."""
        pdfium_c.FPDFText_GetLooseCharBox(self._textpage, index, self._loose_reference)
        loose = self._loose
        return self._projection.box(loose.left, loose.bottom, loose.right, loose.top)

    def is_flat(self, index: int) -> bool:
        """Return whether a glyph has no outline: one side of its box is nearly zero."""
        pdfium_c.FPDFText_GetCharBox(self._textpage, index, *self._side_references)
        left, right, bottom, top = self._sides
        across = right.value - left.value
        up = top.value - bottom.value
        if across > _SURELY_SOLID and up > _SURELY_SOLID:
            return False
        pdfium_c.FPDFText_GetLooseCharBox(self._textpage, index, self._loose_reference)
        loose = self._loose
        return across < _FLAT * (loose.right - loose.left) or up < _FLAT * (
            loose.top - loose.bottom
        )
