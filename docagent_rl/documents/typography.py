"""Lines of a page with the size, the weight and the place of their letters."""

from __future__ import annotations

import ctypes
import json
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, count
from typing import TYPE_CHECKING, cast

import orjson
import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.manifest import Box, is_inside
from docagent_rl.documents.pdf import clean_text

if TYPE_CHECKING:
    RawTextPage = ctypes._Pointer[pdfium_c.struct_fpdf_textpage_t__]

MEASURED = "(measured)"
"""Font of lines that OCR read: only their size is known, as it was measured in the picture."""

_LINE = re.compile(r"[^\r\n]+")
_SEEN = bytes(code not in b"\0\t \xa0" for code in range(256))
_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe]")
"""Characters that `clean_text` changes."""
_NO_CHARACTER = "\ud800"
# the weight that PDFium derives tells bold from regular in some fonts only, so the name has the first word
_BOLD_NAME = re.compile(r"bold|black|heavy|demi|CMBX|CMSSBX|SFBX|xb(?:tt|sl|it)?$", re.IGNORECASE)
_SUBSET = re.compile(r"^[A-Z]{6}\+")
_BOLD_WEIGHT = 600
_FORCE_BOLD = 1 << 18  # PDF 32000-1, table 123
_NAME_BYTES = 128
_GRID = 10_000
"""Steps of a page's sides in which places are given."""


@dataclass(frozen=True, slots=True)
class Style:
    """The print of a line."""

    size: float
    """Of its letters in points, to a tenth."""
    font: str
    """Without the prefix of a subset; empty where the file has none; `MEASURED`."""
    bold: bool
    baseline: float
    """Height above the foot of the page in points, to a tenth."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page, white space collapsed; style and place are None where they are not known."""

    text: str
    style: Style | None = None
    box: Box | None = None


def text_and_lines(textpage: pypdfium2.PdfTextPage, page: pypdfium2.PdfPage) -> tuple[str, tuple[Line, ...]]:
    """Return the text layer inside the page box, and its lines in its order; no text has no lines.

    Words split by a hyphen at a line's end are joined in the text. A line has the print of the largest of
    three letters, the first, the one in the middle and the last: 300 pages take half a second.
    """
    text = clean_text(textpage.get_text_bounded()).strip()
    return text, tuple(_lines(textpage, page)) if text else ()


def dump_lines(lines: tuple[Line, ...]) -> str:
    """Return lines as JSON: `[text, size, font, bold, baseline, left, top, right, bottom]` each, without the
    last four where the place is not known.
    """
    rows = [
        [line.text, style.size, style.font, int(style.bold), style.baseline, *(line.box or ())]
        for line in lines
        if (style := line.style)
    ]
    return orjson.dumps(rows).decode()


def load_lines(text: str) -> tuple[Line, ...]:
    """Return the lines that `dump_lines` wrote; a `ValueError` says that the text is something else."""
    found = []
    try:
        for words, size, font, bold, baseline, *sides in json.loads(text):
            box = None
            if sides:
                left, top, right, bottom = map(float, sides)
                box = left, top, right, bottom
                if not is_inside(box):
                    raise ValueError(f"{sides} is no place on a page")
            found.append(Line(str(words), Style(float(size), str(font), bool(bold), float(baseline)), box))
    except TypeError as error:
        raise ValueError(str(error)) from error
    return tuple(found)


def _lines(textpage: pypdfium2.PdfTextPage, page: pypdfium2.PdfPage) -> list[Line]:
    raw = cast("RawTextPage", textpage.raw)
    letters = _Letters(raw, page)
    characters = _characters(raw, textpage.count_chars())
    # what is not in Latin-1 becomes a question mark, which is seen as well
    seen = list(compress(count(), characters.encode("latin-1", errors="replace").translate(_SEEN)))
    found, end = [], 0
    for line in _LINE.finditer(characters):
        first = bisect_left(seen, line.start(), end)
        end = bisect_left(seen, line.end(), first)
        text = line.group()
        if _UNCLEAN.search(text):
            text = clean_text(text)
        text = " ".join(text.split())
        if text and first < end:
            found.append(letters.line(text, (seen[first], seen[(first + end) // 2], seen[end - 1])))
    return found


def _characters(raw: RawTextPage, number: int) -> str:
    """Return the text layer, one character for each of PDFium's indices."""
    units = (ctypes.c_ushort * (number + 1))()
    written = pdfium_c.FPDFText_GetText(raw, 0, number, units)  # with a zero at the end
    text = bytes(units)[: 2 * max(written - 1, 0)].decode("utf-16-le", errors="surrogatepass")
    # it leaves out what is no text: then, and where a character takes two units, ask for them one by one
    if len(text) == number == max(written - 1, 0):
        return text
    codes = (pdfium_c.FPDFText_GetUnicode(raw, index) for index in range(number))
    # codes beyond Unicode come from damaged fonts
    return "".join(chr(code) if code < 0x110000 else _NO_CHARACTER for code in codes)


class _Letters:
    """The letters of a page by their index in its text layer.

    PDFium answers for one letter at a time: the memory for its answers is made once a page.
    """

    def __init__(self, raw: RawTextPage, page: pypdfium2.PdfPage) -> None:
        self._raw = raw
        self._page = page.raw
        self._matrix = pdfium_c.FS_MATRIX()
        self._name, self._flags = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
        self._origin = ctypes.c_double(), ctypes.c_double()
        self._rectangle = pdfium_c.FS_RECTF()
        self._device = ctypes.c_int(), ctypes.c_int()

    def line(self, text: str, probes: Sequence[int]) -> Line:
        """Return a line with the print of the largest of some letters."""
        sizes = [self._size(index) for index in probes]
        size = max(sizes)
        style = Style(size, *self._font(probes[sizes.index(size)]), self._baseline(probes[0]))
        return Line(text, style, self._place(probes))

    def _size(self, index: int) -> float:
        """Return the size on the page in points, to a tenth: what the font says, scaled as the text is."""
        matrix = self._matrix
        scale = 1.0
        if pdfium_c.FPDFText_GetMatrix(self._raw, index, matrix):
            scale = (matrix.c**2 + matrix.d**2) ** 0.5
        size = pdfium_c.FPDFText_GetFontSize(self._raw, index) * scale
        return round(size, 1) if 0 < size < 10_000 else 0.0

    def _font(self, index: int) -> tuple[str, bool]:
        """Return the name of the font and whether it is bold."""
        self._name[0], self._flags.value = b"\0", 0  # as they stay where there is no answer
        pdfium_c.FPDFText_GetFontInfo(self._raw, index, self._name, _NAME_BYTES, self._flags)
        name, bold = _named(self._name.value, self._flags.value)
        return name, bold or pdfium_c.FPDFText_GetFontWeight(self._raw, index) >= _BOLD_WEIGHT

    def _baseline(self, index: int) -> float:
        """Return the height above the foot of the page in points, to a tenth."""
        x, y = self._origin
        found = pdfium_c.FPDFText_GetCharOrigin(self._raw, index, x, y)
        return round(y.value, 1) if found and abs(y.value) < 1e6 else 0.0

    def _place(self, letters: Sequence[int]) -> Box | None:
        """Return the box of some letters, as fractions of the page as it is shown; None: none of it is."""
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
        corners = self._shown(min(lefts), max(tops)), self._shown(max(rights), min(bottoms))
        (left, right), (top, bottom) = (sorted(pair) for pair in zip(*corners, strict=True))
        left, right, top, bottom = max(left, 0), min(right, _GRID), max(top, 0), min(bottom, _GRID)
        if left >= right or top >= bottom:
            return None
        return left / _GRID, top / _GRID, right / _GRID, bottom / _GRID

    def _shown(self, x: float, y: float) -> tuple[int, int]:
        """Return where a point of a page is shown, in steps from its left and its top."""
        across, down = self._device
        pdfium_c.FPDF_PageToDevice(self._page, 0, 0, _GRID, _GRID, 0, x, y, across, down)
        return across.value, down.value


@lru_cache(maxsize=1024)
def _named(name: bytes, flags: int) -> tuple[str, bool]:
    """Return the name of a font, and whether that or its flags say that it is bold."""
    font = _SUBSET.sub("", clean_text(name.decode("utf-8", errors="replace")))
    return font, bool(_BOLD_NAME.search(font) or flags & _FORCE_BOLD)
