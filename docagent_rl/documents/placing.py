"""Texts that annotations draw, put into the text of their page where a reader meets them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.annotations import DrawnText
from docagent_rl.documents.projection import Box, TextBoxes

_LEADERS = frozenset("_.\u2026 ")
"""What marks the place to write at, under the text that is written there."""
_ROW_SHARE = 0.5
"""Share of the lower of two heights that overlaps where two texts stand in one row."""


class _Character(NamedTuple):
    index: int
    text: str
    box: Box


def placed(
    textpage: pypdfium2.PdfTextPage, boxes: TextBoxes, texts: Sequence[DrawnText], bounds: Box
) -> str:
    """Return the text of a page with what annotations draw on it, each once.

    A text follows what stands to its left in the same row (the label of a field), else it goes
    before what stands to its right (that of a box to tick), else it has lines of its own below the
    text above it. One that stands in the page's content at the same place, as in a form that was
    flattened, is not repeated.

    Args:
        textpage: the page's own text.
        boxes: the boxes of its characters.
        texts: those of the annotations, from top to bottom.
        bounds: the page; characters outside are left out.
    """
    pieces, shown = _content(textpage, boxes, bounds)
    before: dict[int, str] = defaultdict(str)
    after: dict[int, str] = defaultdict(str)
    for text in texts:
        if _stands_there(text, shown):
            continue
        written = "\n".join(text.lines)
        row = [each for each in shown if _same_row(each.box, text.box)]
        left = [each for each in row if each.box.middle[0] < text.box.left]
        right = [each for each in row if each.box.middle[0] >= text.box.middle[0]]
        if left:
            nearest = max(left, key=lambda each: each.box.right)
            after[_past_leaders(pieces, nearest.index)] += f" {written}"
        elif right:
            nearest = min(right, key=lambda each: each.box.left)
            before[nearest.index] += f"{written} "
        elif (above := _above(shown, text.box)) is not None:
            after[_line_end(pieces, above.index)] += f"\n{written}"
        else:
            before[0] += f"{written}\n"
    return "".join(f"{before[at]}{piece}{after[at]}" for at, piece in enumerate([*pieces, ""]))


def _content(
    textpage: pypdfium2.PdfTextPage, boxes: TextBoxes, bounds: Box
) -> tuple[list[str], list[_Character]]:
    """Return the characters of a page by index, empty for those outside, and those that have a
    place.
    """
    pieces: list[str] = []
    shown: list[_Character] = []
    for index in range(textpage.count_chars()):
        code = pdfium_c.FPDFText_GetUnicode(textpage, index)
        character = chr(code) if code else ""
        if character.strip() and not pdfium_c.FPDFText_IsGenerated(textpage, index):
            box = boxes.loose(index)
            if not bounds.holds(box.middle):
                character = ""
            else:
                shown.append(_Character(index, character, box))
        pieces.append(character)
    return pieces, shown


def _stands_there(text: DrawnText, shown: Sequence[_Character]) -> bool:
    """Return whether the page's own content has the letters of a text where it is drawn."""
    extent = text.extent or text.box
    under = "".join(each.text for each in shown if extent.holds(each.box.middle))
    return "".join("".join(text.lines).split()) in under


def _same_row(one: Box, other: Box) -> bool:
    overlap = min(one.bottom, other.bottom) - max(one.top, other.top)
    return overlap >= _ROW_SHARE * min(one.bottom - one.top, other.bottom - other.top) > 0


def _past_leaders(pieces: Sequence[str], index: int) -> int:
    """Return the index of the last of the leaders that follow a character, or its own."""
    end = index
    while end + 1 < len(pieces) and pieces[end + 1] in _LEADERS:
        end += 1
    return end if pieces[end] != " " else max(end - 1, index)


def _above(shown: Sequence[_Character], box: Box) -> _Character | None:
    """Return a character of the nearest text above a box, of that in the same column if there is
    any.
    """
    higher = [each for each in shown if each.box.middle[1] < box.middle[1]]
    column = [each for each in higher if each.box.left < box.right and each.box.right > box.left]
    return max(column or higher, key=lambda each: each.box.bottom, default=None)


def _line_end(pieces: Sequence[str], index: int) -> int:
    while index + 1 < len(pieces) and pieces[index + 1] not in "\r\n":
        index += 1
    return index
