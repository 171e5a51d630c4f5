"""The print of single letters of a PDF page: size, font, place."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.pdf import clean_text
from docagent_rl.documents.refs import Box

if TYPE_CHECKING:
    RawTextPage = ctypes._Pointer[pdfium_c.struct_fpdf_textpage_t__]

# the weight that PDFium derives tells bold from regular in some fonts only, so the name has the first word
_BOLD_NAME = re.compile(r"bold|black|heavy|demi|CMBX|CMSSBX|SFBX|xb(?:tt|sl|it)?$", re.IGNORECASE)
_SUBSET = re.compile(r"^[A-Z]{6}\+")
_BOLD_WEIGHT = 600
_FORCE_BOLD = 1 << 18  # PDF 32000-1, table 123
_NAME_BYTES = 128
_GRID = 10_000
"""Steps of a page's sides in which places are given."""


@lru_cache(maxsize=1024)
def _named(name: bytes, flags: int) -> tuple[str, bool]:
    """Name of a font, and whether that or its flags say that it is bold."""
    font = _SUBSET.sub("", clean_text(name.decode("utf-8", errors="replace")))
    return font, bool(_BOLD_NAME.search(font) or flags & _FORCE_BOLD)


class Letters:
    """The letters of a page by their index in its text layer.

    PDFium answers for one letter at a time: what it writes its answers to is made once a page.
    """

    def __init__(self, raw: RawTextPage, page: pypdfium2.PdfPage) -> None:
        self._raw = raw
        self._page = page.raw
        self._matrix = pdfium_c.FS_MATRIX()
        self._name, self._flags = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
        self._origin = ctypes.c_double(), ctypes.c_double()
        self._rectangle = pdfium_c.FS_RECTF()
        self._device = ctypes.c_int(), ctypes.c_int()

    def size(self, index: int) -> float:
        """Size on the page in points, to a tenth: what the font says, scaled as the text is."""
        matrix = self._matrix
        scale = 1.0
        if pdfium_c.FPDFText_GetMatrix(self._raw, index, matrix):
            scale = (matrix.c**2 + matrix.d**2) ** 0.5
        size = pdfium_c.FPDFText_GetFontSize(self._raw, index) * scale
        return round(size, 1) if 0 < size < 10_000 else 0.0

    def font(self, index: int) -> tuple[str, bool]:
        """Name of the font and whether it is bold."""
        self._name[0], self._flags.value = b"\0", 0  # as they stay where there is no answer
        pdfium_c.FPDFText_GetFontInfo(self._raw, index, self._name, _NAME_BYTES, self._flags)
        name, bold = _named(self._name.value, self._flags.value)
        return name, bold or pdfium_c.FPDFText_GetFontWeight(self._raw, index) >= _BOLD_WEIGHT

    def baseline(self, index: int) -> float:
        """Height above the foot of the page in points, to a tenth."""
        x, y = self._origin
        found = pdfium_c.FPDFText_GetCharOrigin(self._raw, index, x, y)
        return round(y.value, 1) if found and abs(y.value) < 1e6 else 0.0

    def place(self, letters: Sequence[int]) -> Box | None:
        """What holds some letters, as fractions of the page as it is shown; None where none of it is."""
        rectangle = self._rectangle
        sides = [
            (rectangle.left, rectangle.top, rectangle.right, rectangle.bottom)
            for index in letters
            if pdfium_c.FPDFText_GetLooseCharBox(self._raw, index, rectangle)
        ]
        if not sides:
            return None
        lefts, tops, rights, bottoms = zip(*sides, strict=True)
        # of the page turned and cut as it is shown
        left, top = self._shown(min(lefts), max(tops))
        right, bottom = self._shown(max(rights), min(bottoms))
        left, right = max(min(left, right), 0), min(max(left, right), _GRID)
        top, bottom = max(min(top, bottom), 0), min(max(top, bottom), _GRID)
        if left >= right or top >= bottom:
            return None
        return left / _GRID, top / _GRID, right / _GRID, bottom / _GRID

    def _shown(self, x: float, y: float) -> tuple[int, int]:
        """Where a point of a page is shown, in steps from its left and its top."""
        across, down = self._device
        pdfium_c.FPDF_PageToDevice(self._page, 0, 0, _GRID, _GRID, 0, x, y, across, down)
        return across.value, down.value
