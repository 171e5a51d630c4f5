"""Lines of a page with the size, the weight and the place of their letters."""

from __future__ import annotations

import ctypes
import json
import re
from bisect import bisect_left
from dataclasses import dataclass
from itertools import compress, count
from typing import TYPE_CHECKING, cast

import orjson
import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.letters import Letters
from docagent_rl.documents.pdf import bounded_text, clean_text
from docagent_rl.documents.refs import Box

if TYPE_CHECKING:
    from docagent_rl.documents.letters import RawTextPage

_LINE = re.compile(r"[^\r\n]+")
_SEEN = bytes(code not in b"\0\t \xa0" for code in range(256))
_UNCLEAN = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffe]")
"""What `clean_text` would change in a line."""
_NO_CHARACTER = "\ud800"

MEASURED = "(measured)"
"""Font of lines that OCR read: only their size is known, as it was measured in the picture."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a line is set.

    Args:
        size: of its letters in points, to a tenth.
        font: name of their font, without the prefix of a subset; empty where the file has none; `MEASURED`.
        bold: whether they are bold.
        baseline: height above the foot of the page in points, to a tenth.
    """

    size: float
    font: str
    bold: bool
    baseline: float


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a page.

    Args:
        text: white space collapsed.
        style: None where only the text is known.
        box: where it is; None where that is not known.
    """

    text: str
    style: Style | None = None
    box: Box | None = None


def page_typography(page: pypdfium2.PdfPage) -> tuple[Line, ...]:
    """The lines of the text layer in its order, each with the print of the largest of three letters.

    These are the first, the one in the middle and the last: 300 pages take half a second.
    """
    textpage = page.get_textpage()
    try:
        return tuple(_lines(textpage, page))
    finally:
        textpage.close()


def page_text_and_typography(page: pypdfium2.PdfPage) -> tuple[str, tuple[Line, ...]]:
    """What `page_text` and `page_typography` give, reading the text layer once; no text has no lines."""
    textpage = page.get_textpage()
    try:
        return text_and_lines(textpage, page)
    finally:
        textpage.close()


def text_and_lines(textpage: pypdfium2.PdfTextPage, page: pypdfium2.PdfPage) -> tuple[str, tuple[Line, ...]]:
    """As `page_text_and_typography`, of a text layer that is read for other things, too."""
    text = bounded_text(textpage)
    return text, tuple(_lines(textpage, page)) if text else ()


def dump_lines(lines: tuple[Line, ...]) -> str:
    """Lines as JSON: `[text, size, font, bold, baseline, left, top, right, bottom]` each.

    Lines of earlier versions, and those of which the place is not known, end with the baseline.
    """
    rows = [
        [line.text, style.size, style.font, int(style.bold), style.baseline, *(line.box or ())]
        for line in lines
        if (style := line.style)
    ]
    return orjson.dumps(rows).decode()


def load_lines(text: str) -> tuple[Line, ...]:
    """What `dump_lines` wrote.

    Raises:
        ValueError: it is something else.
    """
    try:
        return tuple(
            Line(str(words), Style(float(size), str(font), bool(bold), float(baseline)), _box(box))
            for words, size, font, bold, baseline, *box in json.loads(text)
        )
    except TypeError as error:
        raise ValueError(str(error)) from error


def _box(sides: list[float]) -> Box | None:
    if not sides:
        return None
    left, top, right, bottom = map(float, sides)
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise ValueError(f"{sides} is no place on a page")
    return left, top, right, bottom


def _lines(textpage: pypdfium2.PdfTextPage, page: pypdfium2.PdfPage) -> list[Line]:
    raw = cast("RawTextPage", textpage.raw)
    letters = Letters(raw, page)
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
            found.append(_line(letters, text, (seen[first], seen[(first + end) // 2], seen[end - 1])))
    return found


def _characters(raw: RawTextPage, number: int) -> str:
    """The text layer, one character for each of PDFium's indices."""
    units = (ctypes.c_ushort * (number + 1))()
    written = pdfium_c.FPDFText_GetText(raw, 0, number, units)  # with a zero at the end
    text = bytes(units)[: 2 * max(written - 1, 0)].decode("utf-16-le", errors="surrogatepass")
    # it leaves out what is no text: then, and where a character takes two units, ask for them one by one
    if len(text) == number == max(written - 1, 0):
        return text
    codes = (pdfium_c.FPDFText_GetUnicode(raw, index) for index in range(number))
    # codes beyond Unicode come from damaged fonts
    return "".join(chr(code) if code < 0x110000 else _NO_CHARACTER for code in codes)


def _line(letters: Letters, text: str, probes: tuple[int, int, int]) -> Line:
    """A line with the print of the largest of some letters, named by PDFium's indices."""
    sizes = [letters.size(index) for index in probes]
    size = max(sizes)
    style = Style(size, *letters.font(probes[sizes.index(size)]), letters.baseline(probes[0]))
    return Line(text, style, letters.place(probes))
