"""The text layers of pages, and those that do not say what the page shows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import islice
from typing import cast

import pypdfium2
import pypdfium2.raw as pdfium_c
from PIL import Image

from docagent_rl.documents.manifest import TextReason
from docagent_rl.documents.pdf import clean_text

_GARBLED_SHARE = 0.2
_PROBES = 64
_CID = re.compile(r"\(cid:\d+\)")
_FOREIGN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_FULL_PAGE = 300
"""Letters from which on a text layer is that of a page."""
_PICTURE_SHARE = 0.4
_MANY_PATHS = 500
"""Letters as drawings; charts have fewer."""
_MOST_OBJECTS = 3000
_BLANK_CONTRAST = 24


def layer_text(textpage: pypdfium2.PdfTextPage) -> str:
    """Return the text layer inside the page box; words split by a hyphen at a line's end are joined."""
    return clean_text(textpage.get_text_bounded()).strip()


def assess(text: str, unmapped: float, hidden: Callable[[], bool]) -> TextReason:
    """Return the fault of a text layer; `SOUND` when it has none.

    - `EMPTY`: it has no characters.
    - `GARBLED`: at least a fifth of its characters are replacement, private or control characters, unassigned
      ones, `(cid:12)`, or of glyphs that the font maps to no character.
    - `SPARSE`: it has fewer than 300 characters, and pictures or drawings on the page may show more: a stamp
      on a scan. OCR has the last word.

    Args:
        text: the text layer as it is stored.
        unmapped: share of its glyphs that have no character (`unmapped_share`).
        hidden: tells whether pictures or drawings may show text that is not in the layer (`may_hide_text`);
            called for short layers only.
    """
    letters = "".join(text.split())
    if not letters:
        return TextReason.GARBLED if unmapped >= _GARBLED_SHARE else TextReason.EMPTY
    foreign = sum(map(_is_foreign, letters)) + sum(map(len, _CID.findall(text)))
    if max(foreign / len(letters), unmapped) >= _GARBLED_SHARE:
        return TextReason.GARBLED
    return TextReason.SPARSE if len(letters) < _FULL_PAGE and hidden() else TextReason.SOUND


def is_blank(picture: Image.Image) -> bool:
    """Return whether a picture in mode L is of one colour, or nearly."""
    low, high = cast("tuple[int, int]", picture.getextrema())
    return high - low < _BLANK_CONTRAST


def unmapped_share(textpage: pypdfium2.PdfTextPage) -> float:
    """Return the share of the glyphs of a page that its fonts map to no character, by at most 64 of them."""
    count = textpage.count_chars()
    if not count:
        return 0.0
    probes = range(0, count, max(1, count // _PROBES))
    return sum(pdfium_c.FPDFText_HasUnicodeMapError(textpage, index) == 1 for index in probes) / len(probes)


def may_hide_text(page: pypdfium2.PdfPage) -> bool:
    """Return whether two fifths of a page are pictures, or 500 paths are drawn on it: letters, maybe."""
    width, height = page.get_size()
    covered, paths = 0.0, 0
    for item in islice(page.get_objects(max_depth=4), _MOST_OBJECTS):
        if item.type == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = item.get_bounds()
            covered += max(right - left, 0) * max(top - bottom, 0)
        else:
            paths += item.type == pdfium_c.FPDF_PAGEOBJ_PATH
        if covered >= _PICTURE_SHARE * width * height or paths >= _MANY_PATHS:
            return True
    return False


def _is_foreign(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in _FOREIGN
