"""Insertion of the texts that annotations draw into the text of their page."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.annotations import DrawnText
from docagent_rl.documents.projection import Box, TextBoxes

_LEADERS = frozenset("_.\u2026 ")
"""Characters of the lines on which a form is filled in."""
_ROW_SHARE = 0.5
"""Minimum overlap, relative to the lesser height, of two texts in the same row."""


class _Character(NamedTuple):
    index: int
    text: str
    box: Box


def insert_texts(
    textpage: pypdfium2.PdfTextPage, boxes: TextBoxes, texts: Sequence[DrawnText], bounds: Box
) -> str:
    """Return the text of a page with the texts that annotations draw on it, each once.

    A text is inserted behind the text to its left in the same row (such as the label of a field),
    else before the text to its right (such as the label of a tick box), else on new lines below the
    text above it. A text that the page's content has at the same place, as in a flattened form, is
    not repeated.

    Args:
        textpage: the page's own text.
        boxes: the boxes of its characters.
        texts: the texts of annotations, from top to bottom.
        bounds: the page; characters outside of it are left out.
    """
    pieces, lines = _content(textpage, boxes, bounds)
    before: dict[int, str] = defaultdict(str)
    after: dict[int, str] = defaultdict(str)
    for text in texts:
        if _stands_there(text, lines):
            continue
        written = "\n".join(text.lines)
        row = [each for line in lines if _same_row(line[0].box, text.box) for each in line]
        left = [each for each in row if each.box.middle[0] < text.box.left]
        right = [each for each in row if each.box.middle[0] >= text.box.middle[0]]
        # of two at the same place, the first in the text
        if left:
            nearest = max(left, key=lambda each: (each.box.right, -each.index))
            after[_past_leaders(pieces, nearest.index)] += f" {written}"
        elif right:
            nearest = min(right, key=lambda each: (each.box.left, each.index))
            before[nearest.index] += f"{written} "
        elif (above := _above(lines, text.box)) is not None:
            after[_line_end(pieces, above.index)] += f"\n{written}"
        else:
            before[0] += f"{written}\n"
    return "".join(f"{before[at]}{piece}{after[at]}" for at, piece in enumerate([*pieces, ""]))


def _content(
    textpage: pypdfium2.PdfTextPage, boxes: TextBoxes, bounds: Box
) -> tuple[list[str], list[list[_Character]]]:
    """Return the characters of a page by index, and the visible ones among them by line.

    The characters of a line have the same top and bottom, so that most comparisons are made once
    for all of them. Characters outside of `bounds` are empty in the first list and missing in the
    second.
    """
    pieces: list[str] = []
    lines: dict[tuple[float, float], list[_Character]] = defaultdict(list)
    page = textpage.raw
    for index in range(textpage.count_chars()):
        code = pdfium_c.FPDFText_GetUnicode(page, index)
        character = chr(code) if code else ""
        if character.strip() and not pdfium_c.FPDFText_IsGenerated(page, index):
            box = boxes.loose(index)
            if not bounds.contains(box.middle):
                character = ""
            else:
                lines[box.top, box.bottom].append(_Character(index, character, box))
        pieces.append(character)
    return pieces, list(lines.values())


def _stands_there(text: DrawnText, lines: Sequence[Sequence[_Character]]) -> bool:
    """Return whether the page's own content has the same letters where a text is drawn."""
    extent = text.extent or text.box
    under = [
        each
        for line in lines
        if extent.top <= line[0].box.middle[1] <= extent.bottom
        for each in line
        if extent.contains(each.box.middle)
    ]
    letters = "".join(each.text for each in sorted(under, key=lambda each: each.index))
    return "".join("".join(text.lines).split()) in letters


def _same_row(one: Box, other: Box) -> bool:
    overlap = min(one.bottom, other.bottom) - max(one.top, other.top)
    return overlap >= _ROW_SHARE * min(one.bottom - one.top, other.bottom - other.top) > 0


def _past_leaders(pieces: Sequence[str], index: int) -> int:
    """Return the index of the last leader that directly follows a character, or its own index."""
    end = index
    while end + 1 < len(pieces) and pieces[end + 1] in _LEADERS:
        end += 1
    return end if pieces[end] != " " else max(end - 1, index)


def _above(lines: Sequence[Sequence[_Character]], box: Box) -> _Character | None:
    """Return a character of the nearest text above a box, preferably in the same column."""
    higher = [each for line in lines if line[0].box.middle[1] < box.middle[1] for each in line]
    column = [each for each in higher if each.box.left < box.right and each.box.right > box.left]
    return max(column or higher, key=lambda each: (each.box.bottom, -each.index), default=None)


def _line_end(pieces: Sequence[str], index: int) -> int:
    while index + 1 < len(pieces) and pieces[index + 1] not in "\r\n":
        index += 1
    return index
