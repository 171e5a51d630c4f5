"""The projection of a PDF page's coordinates to pixels of its picture."""

import ctypes
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

    def around(self, other: "Box") -> "Box":
        """Return the smallest box around both."""
        return Box(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )

    def inner(self) -> "Box":
        """Return its middle half in both directions, which neighbouring glyphs do not reach."""
        across = (self.right - self.left) / 4
        down = (self.bottom - self.top) / 4
        return Box(self.left + across, self.top + down, self.right - across, self.bottom - down)

    def contains(self, point: tuple[float, float]) -> bool:
        """Return whether a point `(x, y)` is in it."""
        return self.left <= point[0] <= self.right and self.top <= point[1] <= self.bottom


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
        first = self._point(left, bottom)
        second = self._point(right, top)
        return Box(
            min(first[0], second[0]),
            min(first[1], second[1]),
            max(first[0], second[0]),
            max(first[1], second[1]),
        )

    def _point(self, x: float, y: float) -> tuple[float, float]:
        return (
            self._origin[0] + x * self._x[0] + y * self._y[0],
            self._origin[1] + x * self._x[1] + y * self._y[1],
        )

    def _device(self, x: float, y: float) -> tuple[float, float]:
        width, height = self.size
        across = ctypes.c_int()
        down = ctypes.c_int()
        pdfium_c.FPDF_PageToDevice(
            self._page, 0, 0, width * _FINE, height * _FINE, 0, x, y, across, down
        )
        return across.value / _FINE, down.value / _FINE


class TextBoxes:
    """The boxes of the characters of a text page, by index."""

    def __init__(self, textpage: pypdfium2.PdfTextPage, projection: Projection) -> None:
        self._textpage = textpage
        self._projection = projection
        self._loose = pdfium_c.FS_RECTF()
        self._sides = [ctypes.c_double() for _ in range(4)]

    def loose(self, index: int) -> Box:
        """Return the box that a character takes up in its line, whatever its glyph."""
        pdfium_c.FPDFText_GetLooseCharBox(self._textpage, index, self._loose)
        loose = self._loose
        return self._projection.box(loose.left, loose.bottom, loose.right, loose.top)

    def is_flat(self, index: int) -> bool:
        """Return whether a glyph has no outline: one side of its box is nearly zero."""
        pdfium_c.FPDFText_GetCharBox(self._textpage, index, *self._sides)
        left, right, bottom, top = (side.value for side in self._sides)
        across = right - left
        up = top - bottom
        if across > _SURELY_SOLID and up > _SURELY_SOLID:
            return False
        pdfium_c.FPDFText_GetLooseCharBox(self._textpage, index, self._loose)
        loose = self._loose
        return across < _FLAT * (loose.right - loose.left) or up < _FLAT * (
            loose.top - loose.bottom
        )
