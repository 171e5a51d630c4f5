"""Draw pages with coloured backgrounds, which can be recognised where numbers are too small."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass

from reportlab.lib.colors import Color
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

from learning.pages import FONT, write_text
from proof.tasks.base import Part, ProofPage, Sheet

WHITE = "white"
COLOURS: Mapping[str, tuple[float, float, float]] = {
    "red": (1.0, 0.0, 0.0),
    "green": (0.0, 0.7, 0.0),
    "blue": (0.0, 0.0, 1.0),
    "yellow": (1.0, 1.0, 0.0),
    "black": (0.0, 0.0, 0.0),
    "orange": (1.0, 0.55, 0.0),
}
"""Colours by name: red, green and blue from 0 to 1."""

Rectangle = tuple[float, float, float, float]
"""Left, top, right and bottom in points from the upper left corner."""


@dataclass(frozen=True, slots=True)
class ColouredPage(ProofPage):
    """A page with a coloured background and a white field for the painted texts.

    Args:
        colour: a name in `COLOURS`, or `WHITE`.
        field: the white rectangle.
    """

    colour: str = WHITE
    field: Rectangle = (0.0, 0.0, 0.0, 0.0)


def draw_coloured(sheet: Sheet) -> bytes:
    """Draw a document of coloured pages as a PDF.

    The pages of `Part.BLANK` are white, and nothing is painted on them.
    """
    buffer = io.BytesIO()
    canvas = Canvas(buffer, invariant=1)
    visible = sheet.part is not Part.BLANK
    for page in sheet.pages:
        canvas.setPageSize((page.side, page.side))
        if visible and isinstance(page, ColouredPage) and page.colour != WHITE:
            _fill(canvas, (0, 0, page.side, page.side), COLOURS[page.colour], page.side)
            _fill(canvas, page.field, (1.0, 1.0, 1.0), page.side)
        write_text(canvas, page.word, (2, page.side - 8), "Helvetica", 6, visible=False)
        for mark in page.painted:
            left = mark.at[0] - stringWidth(mark.text, FONT, mark.size) / 2
            # the height of a digit is about 0.72 of the size
            at = left, page.side - mark.at[1] - 0.36 * mark.size
            write_text(canvas, mark.text, at, FONT, mark.size, visible=visible)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def _fill(canvas: Canvas, area: Rectangle, colour: tuple[float, float, float], side: float) -> None:
    left, top, right, bottom = area
    canvas.saveState()
    canvas.setFillColor(Color(*colour))
    canvas.rect(left, side - bottom, right - left, bottom - top, stroke=0, fill=1)
    canvas.restoreState()
