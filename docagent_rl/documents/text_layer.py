"""Text layers of pages that do not say what the page shows."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, cast

import pypdfium2
import pypdfium2.raw as pdfium_c
from PIL import Image

from docagent_rl.documents.manifest import TextReason
from docagent_rl.documents.workers import require_memory

if TYPE_CHECKING:
    import numpy as np

_GARBLED_SHARE = 0.2
_PROBES = 64
_CID = re.compile(r"\(cid:\d+\)")
_FOREIGN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_ENOUGH = 50
_FEWEST_WORDLIKE = 0.5
_LEADERS = ".\u00b7\u2024\u2026\u30fb_-\u2013\u2014=*"
_ENOUGH_LATIN = 150
_COMMON = frozenset("eainrtos")
_FEWEST_COMMON = 0.45
_FULL_PAGE = 300
"""Letters from which on a text layer is that of a page, and the picture is not looked at."""
_SHOWN_FEWEST = 60
_SHOWN_TIMES = 2.0
_PICTURE_SHARE = 0.4
_MANY_PATHS = 500
"""Letters as drawings; charts have fewer."""
_MOST_OBJECTS = 3000
_LONG_SIDE = 1600
_LETTER_SIDES = (5, 60)
_BLANK_CONTRAST = 24
_OPENCV_GIB = 0.3


def assess(
    text: str, unmapped: float, hidden: Callable[[], bool], shown: Callable[[], Image.Image]
) -> TextReason:
    """Return the fault of a text layer; `SOUND` when it has none.

    - `EMPTY`: it has no characters.
    - `GARBLED`: at least a fifth of its characters are replacement, private or control characters, unassigned
      ones, `(cid:12)`, or of glyphs that the font maps to no character.
    - `NO_LETTERS`: it has fewer than 50 characters and no letter among them, and something other than text is
      on the page: a page number on a scan.
    - `UNLIKELY`: fewer than half of 50 or more characters are letters or digits, leaders and rules aside; or
      fewer than 45 in 100 of 150 or more Latin letters are e, a, i, n, r, t, o or s, which are more than half
      of them in the languages of Europe and some 30 in 100 after most exchanges of letters. OCR has the last
      word.
    - `SPARSE`: it has fewer than 300 characters, something other than text is on the page, and the picture
      shows more than 60 letters and twice as many as it has.

    Args:
        text: the text layer as it is stored.
        unmapped: share of its glyphs that have no character (`unmapped_share`).
        hidden: tells whether pictures or drawings may show text that is not in the layer (`may_hide_text`);
            called for short layers only.
        shown: makes the picture in mode L; called when the layer alone does not tell.
    """
    counts = Counter("".join(text.split()))
    characters = counts.total()
    if not characters:
        return TextReason.GARBLED if unmapped >= _GARBLED_SHARE else TextReason.EMPTY
    foreign = _total(counts, _is_foreign)
    if "(cid:" in text:
        foreign += sum(map(len, _CID.findall(text)))
    if max(foreign / characters, unmapped) >= _GARBLED_SHARE:
        return TextReason.GARBLED
    letters = _total(counts, str.isalpha)
    if not letters and characters < _ENOUGH and hidden():
        return TextReason.NO_LETTERS
    if _is_unlikely(counts, characters, letters):
        return TextReason.UNLIKELY
    if characters < _FULL_PAGE and hidden():
        seen = letters_shown(shown())
        if seen >= _SHOWN_FEWEST and seen > _SHOWN_TIMES * characters:
            return TextReason.SPARSE
    return TextReason.SOUND


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


def letters_shown(picture: Image.Image) -> int:
    """Return about how many letters a picture in mode L shows.

    Counts dark or light spots of the size of letters that have one as high beside them on the same line:
    most letters are one spot each, and those of a photograph stand in no line.
    """
    require_memory(_OPENCV_GIB)
    import cv2
    import numpy as np

    picture = picture.copy()
    picture.thumbnail((_LONG_SIDE, _LONG_SIDE), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture)
    if min(pixels.shape) < 16:
        return 0
    cv2.setNumThreads(1)
    smooth = cv2.boxFilter(pixels, cv2.CV_16S, (31, 31)) - pixels.astype(np.int16)
    masks = ((sign * smooth > 20).astype(np.uint8) for sign in (1, -1))
    return max(_in_lines(cv2.connectedComponentsWithStats(mask, connectivity=8)[2][1:, :4]) for mask in masks)


def _in_lines(spots: np.ndarray) -> int:
    """Return how many of the spots `(left, top, width, height)` have another beside them on their line."""
    import numpy as np

    low, high = _LETTER_SIDES
    _, _, width, height = spots.T
    spots = spots[(height >= low) & (height <= high) & (width >= 1) & (width <= 2 * height)]
    # by bands as high as letters are: the next one to the right in the same band
    left, top, width, height = spots[np.lexsort((spots[:, 0], (spots[:, 1] + spots[:, 3]) // 6))].T
    gap = left[1:] - (left[:-1] + width[:-1])
    tall = np.maximum(height[1:], height[:-1])
    beside = (
        (np.abs(top[1:] + height[1:] - top[:-1] - height[:-1]) <= 0.3 * tall)
        & (gap >= -2)
        & (gap <= tall)
        & (np.minimum(height[1:], height[:-1]) >= 0.5 * tall)
    )
    return int(beside.sum())


def _is_unlikely(counts: Counter[str], characters: int, letters: int) -> bool:
    # vowel signs of many scripts are marks
    wordlike = letters + _total(counts, lambda sign: sign.isnumeric() or unicodedata.category(sign)[0] == "M")
    others = characters - sum(counts[leader] for leader in _LEADERS)
    if others >= _ENOUGH and wordlike < _FEWEST_WORDLIKE * others:
        return True
    latin: Counter[str] = Counter()
    for character, count in counts.items():
        latin[_base(character)] += count
    del latin[""]
    total = latin.total()
    if total < _ENOUGH_LATIN or 2 * total < letters:
        return False
    return sum(latin[letter] for letter in _COMMON) < _FEWEST_COMMON * total


def _total(counts: Counter[str], belongs: Callable[[str], bool]) -> int:
    return sum(count for character, count in counts.items() if belongs(character))


def _base(letter: str) -> str:
    """Return a Latin letter small and without its accent; nothing for other characters."""
    if not letter.isalpha():
        return ""
    if not letter.isascii():
        letter = unicodedata.normalize("NFD", letter)[0]
    return letter.casefold() if letter.isascii() else ""


def _is_foreign(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in _FOREIGN
