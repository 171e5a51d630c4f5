"""Page sizes, fonts and colours of a document, and flowables that remember where they were drawn."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from PIL import Image
from reportlab.lib import pagesizes
from reportlab.lib.colors import HexColor, white
from reportlab.lib.styles import ParagraphStyle
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase.pdfmetrics import stringWidth
from reportlab.platypus import Flowable, Paragraph
from reportlab.platypus import Table as GridTable

from docagent_rl.lab.synth.model import PageFormat, Table
from docagent_rl.lab.synth.plan import DocumentPlan
from docagent_rl.samples.fields import Box

_SIZES = {
    PageFormat.A4: pagesizes.A4,
    PageFormat.LETTER: pagesizes.letter,
    PageFormat.LANDSCAPE: pagesizes.landscape(pagesizes.A4),
    PageFormat.SLIDE: (960.0, 540.0),
}
_FAMILIES = (("Helvetica", "Helvetica-Bold"), ("Times-Roman", "Times-Bold"))
_ACCENTS = ("#1f4e79", "#7a1f3d", "#2e6b34", "#5b3a86", "#8a4b08", "#135e63")


@dataclass(frozen=True)
class Style:
    """The look of a document; lengths are in points."""

    size: tuple[float, float]
    """Width and height of the page."""
    font: str
    bold: str
    accent: str
    """Hex colour."""
    text: float
    """Font size of running text."""
    zebra: bool
    """Tables with shaded rows, otherwise with lines."""
    chapter_breaks: bool
    """Every chapter begins on a new page."""
    margin: float = 54.0
    footer: float = 48.0
    """Height kept free at the bottom for the footer."""

    @property
    def width(self) -> float:
        """Width of the text."""
        return self.size[0] - 2 * self.margin

    @property
    def height(self) -> float:
        """Height of the text."""
        return self.size[1] - self.margin - self.footer

    @property
    def chart_size(self) -> tuple[float, float]:
        """Width and height of a chart."""
        width = min(self.width, 430.0)
        return width, min(0.52 * width, 0.5 * self.height)

    def paragraph(self, name: str, scale: float = 1.0, **changes: Any) -> ParagraphStyle:
        """Return the style of running text, `scale` times as large and with the attributes changed."""
        size = scale * self.text
        base = {"fontName": self.font, "leading": 1.35 * size, "spaceAfter": 0.7 * self.text}
        return ParagraphStyle(name, fontSize=size, **{**base, **changes})

    def heading(self, level: int) -> ParagraphStyle:
        """Return the style of a heading of level 0 or 1; it stays with what follows."""
        return self.paragraph(
            f"heading{level}",
            (1.75, 1.25)[level],
            fontName=self.bold,
            spaceBefore=self.text * (1.4, 0.9)[level],
            textColor=HexColor(self.accent),
            keepWithNext=1,
        )


def style_of(plan: DocumentPlan) -> Style:
    """Draw the look of a document from its id."""
    rng = random.Random(f"style/{plan.doc_id}")
    slide = plan.page_format is PageFormat.SLIDE
    font, bold = _FAMILIES[0] if slide else rng.choice(_FAMILIES)
    return Style(
        size=_SIZES[plan.page_format],
        font=font,
        bold=bold,
        accent=rng.choice(_ACCENTS),
        text=14.0 if slide else rng.choice((10.0, 10.5, 11.0)),
        zebra=rng.random() < 0.5,
        chapter_breaks=slide or rng.random() < 0.3,
    )


@dataclass(frozen=True)
class Spot:
    """The place where something was drawn."""

    page: int
    """1-based."""
    box: Box


@dataclass
class Spots:
    """The spots of one layout, by key, in the order of drawing."""

    size: tuple[float, float]
    """Width and height of the page in points."""
    found: dict[str, Spot] = field(default_factory=dict)

    def note(self, key: str, flowable: Flowable, y: float, width: float, height: float) -> None:
        """Note a rectangle that begins `y` above the lower left of `flowable`, which is being drawn."""
        left, bottom = flowable.canv.absolutePosition(0, y)
        page_width, page_height = self.size
        edges = (
            left / page_width,
            1 - (bottom + height) / page_height,
            (left + width) / page_width,
            1 - bottom / page_height,
        )
        left, top, right, bottom = (round(min(max(edge, 0.0), 1.0), 5) for edge in edges)
        self.found[key] = Spot(flowable.canv.getPageNumber(), (left, top, right, bottom))


class NotedParagraph(Paragraph):
    """A paragraph that is never split over pages and notes its rectangle under `key`.

    As a heading it has a level, and a bookmark that links and the outline point to.
    """

    def __init__(
        self, text: str, style: ParagraphStyle, spots: Spots, key: str, level: int | None = None
    ) -> None:
        super().__init__(text, style)
        self._title, self._spots, self._key, self._level = text, spots, key, level

    def split(self, availWidth: float, availHeight: float) -> list[Flowable]:  # noqa: N803
        """Return no parts: evidence stays on one page."""
        return []

    def draw(self) -> None:
        """Draw, note and bookmark."""
        super().draw()
        self._spots.note(self._key, self, 0, self.width, self.height)
        if self._level is not None:
            self.canv.bookmarkHorizontal(self._key, 0, self.height)
            self.canv.addOutlineEntry(self._title, self._key, level=self._level)


class NotedTable(GridTable):
    """A table on one page that notes itself under its key and row `i` (from 0) under `"<key>/row/<i>"`."""

    def __init__(self, table: Table, style: Style, spots: Spots) -> None:
        cells = [list(table.header), *map(list, table.rows)]
        # a long table on a low page gets smaller type, so that its heading and introduction stay with it
        size = max(min(style.text - 1, 11.5, 0.62 * style.height / (1.6 * len(cells))), 8.5)
        widths, grid = _column_widths(cells, style, size), _grid(style, size)
        super().__init__(cells, colWidths=widths, rowHeights=1.6 * size, hAlign="LEFT", style=grid)
        self._table, self._spots = table, spots

    def split(self, availWidth: float, availHeight: float) -> list[Flowable]:  # noqa: N803
        """Return no parts: evidence stays on one page."""
        return []

    def draw(self) -> None:
        """Draw and note."""
        super().draw()
        width, key = sum(cast("list[float]", self._colWidths)), self._table.key
        self._spots.note(key, self, 0, width, self._height)
        tops = self._rowpositions  # from the top edge of the header down to the bottom edge
        for row in range(len(self._table.rows)):
            bottom = tops[row + 2]
            self._spots.note(f"{key}/row/{row}", self, bottom, width, tops[row + 1] - bottom)


class Picture(Flowable):
    """An image of a fixed size that is only made when it is really drawn."""

    def __init__(
        self, size: tuple[float, float], make: Callable[[], Image.Image] | None, spots: Spots, key: str
    ) -> None:
        super().__init__()
        self.width, self.height = size
        self._make, self._spots, self._key = make, spots, key

    def draw(self) -> None:
        """Draw (nothing in a draft) and note."""
        if self._make is not None:
            self.canv.drawImage(ImageReader(self._make()), 0, 0, self.width, self.height)
        self._spots.note(self._key, self, 0, self.width, self.height)


class ContentsLine(Flowable):
    """A line of the table of contents: title, dots, page, linked to the heading under `key`."""

    def __init__(self, title: str, page: int, level: int, style: Style, key: str) -> None:
        super().__init__()
        self._title, self._page, self._key = title, page, key
        self._font = style.bold if level == 0 else style.font
        self._size = style.text * (1.0 if level == 0 else 0.92)
        self._indent = 16.0 * level
        self.width, self.height = style.width, 1.5 * self._size

    def draw(self) -> None:
        """Draw the line; the height does not depend on the page number."""
        canvas, base = self.canv, 0.4 * self._size
        canvas.setFont(self._font, self._size)
        canvas.drawString(self._indent, base, self._title)
        canvas.drawRightString(self.width, base, str(self._page))
        start = self._indent + stringWidth(self._title, self._font, self._size) + 6
        canvas.setDash(1, 3)
        canvas.setStrokeGray(0.5)
        canvas.line(start, base, self.width - 26, base)
        canvas.setDash()
        canvas.linkRect("", self._key, (0, 0, self.width, self.height), relative=1, Border="[0 0 0]")


def _column_widths(cells: list[list[str]], style: Style, size: float) -> list[float]:
    """Stretch natural widths towards the width of the text, but not so far that rows are hard to follow."""
    columns = zip(*cells, strict=True)
    natural = [max(stringWidth(cell, style.bold, size) for cell in column) + 18 for column in columns]
    goal = min(style.width, max(sum(natural), 43 * style.text))
    return [width * goal / sum(natural) for width in natural]


def _grid(style: Style, size: float) -> list[tuple[Any, ...]]:
    everything = (0, 0), (-1, -1)
    lines = ("LINEBELOW", *everything, 0.4, HexColor("#999999"))
    shades = ("ROWBACKGROUNDS", (0, 1), (-1, -1), (white, HexColor("#eef1f5")))
    return [
        ("FONT", *everything, style.font, size),
        ("FONT", (0, 0), (-1, 0), style.bold, size),
        ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
        ("VALIGN", *everything, "MIDDLE"),
        ("BACKGROUND", (0, 0), (-1, 0), HexColor(style.accent)),
        ("TEXTCOLOR", (0, 0), (-1, 0), white),
        shades if style.zebra else lines,
    ]
