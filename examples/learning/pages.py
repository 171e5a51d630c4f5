"""Draw pages with a word in the text layer and a large number in the picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.pdfgen.canvas import Canvas

SIDE_PT = 56.0
"""The side of a page in points: 112 pixels at 144 dpi, or 16 visual tokens of Qwen2.5-VL."""

FONT = "Helvetica-Bold"
SIZE_PT = 22.0
"""The font size of the number in points: 44 pixels at 144 dpi."""

_VISIBLE = 0
_INVISIBLE = 3


@dataclass(frozen=True, slots=True)
class NumberPage:
    """A page.

    Args:
        word: the word by which a search finds the page; invisible, as in the text layer of a scan.
        number: the number that is painted.
        shift: the offset of the number from the centre, `(x, y)` in points.
    """

    word: str
    number: str
    shift: tuple[float, float] = (0.0, 0.0)


def number_pages_pdf(pages: Sequence[NumberPage], *, blank: bool = False) -> bytes:
    """Return a PDF of the pages; the same pages give the same bytes.

    Args:
        pages: the pages, in order.
        blank: do not paint the numbers; the text layers stay as they are.
    """
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(SIDE_PT, SIDE_PT), invariant=1)
    for page in pages:
        write_text(canvas, page.word, (2, SIDE_PT - 8), "Helvetica", 6, visible=False)
        x, y = page.shift
        left = (SIDE_PT - stringWidth(page.number, FONT, SIZE_PT)) / 2 + x
        # the height of a digit is about 0.72 of the size
        baseline = SIDE_PT / 2 - 0.36 * SIZE_PT + y
        write_text(canvas, page.number, (left, baseline), FONT, SIZE_PT, visible=not blank)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def write_text(
    canvas: Canvas, content: str, at: tuple[float, float], font: str, size: float, *, visible: bool
) -> None:
    """Write a text whose baseline begins `at`, in points from the lower left corner."""
    # reportlab assumes that a new text object starts with render mode 0, but on the page the mode
    # of the previous one still applies
    canvas.saveState()
    text = canvas.beginText(*at)
    text.setFont(font, size)
    text.setTextRenderMode(_VISIBLE if visible else _INVISIBLE)
    text.textOut(content)
    canvas.drawText(text)
    canvas.restoreState()
