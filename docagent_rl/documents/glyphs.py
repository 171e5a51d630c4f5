"""Checks of a text layer against the picture: letters whose font draws nothing."""

import ctypes
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, cast

import pypdfium2
import pypdfium2.raw as pdfium_c
from PIL import Image

from docagent_rl.documents.ink import CONTRAST, has_ink
from docagent_rl.documents.projection import Box, TextBoxes

_MOST = 8
"""Occurrences of a letter to look at, spread over its page, since fonts of a page may differ."""
_UNSEEN = frozenset({pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium_c.FPDF_TEXTRENDERMODE_CLIP})


def sample_letters(textpage: pypdfium2.PdfTextPage) -> dict[str, list[int]]:
    """Return the letters and digits of a page, each with the indices of at most 8 occurrences."""
    places: dict[str, list[int]] = defaultdict(list)
    for index, character in enumerate(_characters(textpage)):
        places[character].append(index)
    return {
        character: found[:: -(-len(found) // _MOST)]
        for character, found in places.items()
        if character.isalnum()
    }


def _characters(textpage: pypdfium2.PdfTextPage) -> Sequence[str]:
    """Return the characters of a page by index, with one call unless its text omits some."""
    count = textpage.count_chars()
    text = textpage.get_text_range(0, count)
    if len(text) == count:
        return text
    return [chr(pdfium_c.FPDFText_GetUnicode(textpage, index)) for index in range(count)]


def blank_letters(
    textpage: pypdfium2.PdfTextPage,
    letters: dict[str, list[int]],
    boxes: TextBoxes,
    picture: Image.Image,
) -> list[Box]:
    """Return the boxes of letters that should be visible but for which their font draws nothing.

    Text that is invisible on purpose does not count: the text layer of a scan, text in the colour
    of its background, without size, or outside of the page. Nor do letters where the picture shows
    something.

    Args:
        textpage: the text layer.
        letters: the letters to look at (`sample_letters`).
        boxes: the boxes of the characters.
        picture: the page as it was drawn, in mode RGB or RGBX.
    """
    blank = []
    for places in letters.values():
        for index in places:
            if not boxes.is_flat(index):
                continue
            box = boxes.loose(index)
            is_blank = _fits(box, picture) and not has_ink(picture, box.inner())
            if is_blank and _is_seen(textpage, index, picture, box):
                blank.append(box)
    return blank


def without_ink(blank: Sequence[Box], picture: Image.Image) -> list[Box]:
    """Return the boxes that show nothing in a picture of the page."""
    return [box for box in blank if not has_ink(picture, box.inner())]


def _fits(box: Box, picture: Image.Image) -> bool:
    """Return whether a letter lies within the page, and is large enough to be drawn."""
    inside = (
        box.left >= 0
        and box.top >= 0
        and box.right <= picture.width
        and box.bottom <= picture.height
    )
    return inside and box.right - box.left >= 1 and box.bottom - box.top >= 2


def _is_seen(textpage: pypdfium2.PdfTextPage, index: int, picture: Image.Image, box: Box) -> bool:
    item: Any = pdfium_c.FPDFText_GetTextObject(textpage, index)
    if item and pdfium_c.FPDFTextObj_GetTextRenderMode(item) in _UNSEEN:
        return False
    channels = [ctypes.c_uint() for _ in range(4)]
    if not pdfium_c.FPDFText_GetFillColor(textpage, index, *channels):
        return False
    *colour, alpha = (channel.value for channel in channels)
    x, y = box.middle
    ground = cast("tuple[int, ...]", picture.getpixel((int(x), int(y))))[:3]
    return alpha > 0 and any(
        abs(one - other) >= CONTRAST for one, other in zip(colour, ground, strict=True)
    )
