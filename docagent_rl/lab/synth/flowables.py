"""The look of a document, and flowables that record where they were drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
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

from docagent_rl.lab.synth.model import ReportSection, Table
from docagent_rl.lab.synth.plan import DocumentPlan
from docagent_rl.samples.sample import Box

FONT = "Helvetica"
BOLD = "Helvetica-Bold"
MARGIN = 54.0
FOOTER = 48.0
"""Height reserved at the bottom for the footer."""
_ACCENTS = ("#1f4e79", "#7a1f3d", "#2e6b34", "#5b3a86", "#8a4b08", "#135e63")


@dataclass(frozen=True)
class DocumentStyle:
    """The look of a document, derived from its id: A4, or slides in large type; lengths are in
    points.
    """

    size: tuple[float, float]
    """Width and height of the page."""
    text: float
    """Font size of running text."""
    accent: str
    """Hex colour."""

    @classmethod
    def of(cls, plan: DocumentPlan) -> DocumentStyle:
        """Return the style of a document."""
        accent = random.Random(f"style/{plan.doc_id}").choice(_ACCENTS)
        return cls((960.0, 540.0), 14.0, accent) if plan.slides else cls(pagesizes.A4, 10.5, accent)

    @property
    def width(self) -> float:
        """Width of the text area."""
        return self.size[0] - 2 * MARGIN

    @property
    def height(self) -> float:
        """Height of the text area."""
        return self.size[1] - MARGIN - FOOTER

    @property
    def chart_size(self) -> tuple[float, float]:
        """Width and height of a chart."""
        width = min(self.width, 430.0)
        return width, min(0.52 * width, 0.5 * self.height)

    def paragraph(self, name: str, scale: float = 1.0, **changes: Any) -> ParagraphStyle:
        """Return a paragraph style, `scale` times the size of running text, with changed
        attributes.
        """
        size = scale * self.text
        base = {"fontName": FONT, "leading": 1.35 * size, "spaceAfter": 0.7 * self.text}
        return ParagraphStyle(name, fontSize=size, **{**base, **changes})

    def heading(self, level: int) -> ParagraphStyle:
        """Return the style of a heading of level 0 or 1; it is kept together with what follows."""
        before = self.text * (1.4, 0.9)[level]
        colour = HexColor(self.accent)
        more = {"fontName": BOLD, "spaceBefore": before, "textColor": colour, "keepWithNext": 1}
        return self.paragraph(f"heading{level}", (1.75, 1.25)[level], **more)


@dataclass(frozen=True)
class Spot:
    """The place where something was drawn."""

    page: int
    """Page number, from 1."""
    box: Box


@dataclass
class Spots:
    """The spots of one layout by key, in drawing order."""

    size: tuple[float, float]
    """Width and height of the page in points."""
    found: dict[str, Spot] = field(default_factory=dict)

    def note(self, key: str, flowable: Flowable, y: float, width: float, height: float) -> None:
        """Record a rectangle that begins `y` above the lower left corner of `flowable`, while that
        is drawn.
        """
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


class _Whole:
    """A flowable that is never split, so that evidence stays on one page."""

    def split(self, *args: Any, **more: Any) -> list[Flowable]:
        """Return no parts."""
        return []


class NotedParagraph(_Whole, Paragraph):
    """A paragraph on one page that records its rectangle under `key`.

    A heading has a level, and gets a bookmark and an entry in the outline.
    """

    def __init__(
        self, text: str, style: ParagraphStyle, spots: Spots, key: str, level: int | None = None
    ) -> None:
        super().__init__(text, style)
        self._title = text
        self._spots = spots
        self._key = key
        self._level = level

    def draw(self) -> None:
        """Draw the paragraph, record its place, and add the bookmark."""
        super().draw()
        self._spots.note(self._key, self, 0, self.width, self.height)
        if self._level is not None:
            self.canv.bookmarkHorizontal(self._key, 0, self.height)
            self.canv.addOutlineEntry(self._title, self._key, level=self._level)


class NotedTable(_Whole, GridTable):
    """A table on one page that records itself under its key, and row `i` (from 0) under
    `"<key>/row/<i>"`.
    """

    def __init__(self, table: Table, style: DocumentStyle, spots: Spots) -> None:
        cells = [list(table.header), *map(list, table.rows)]
        # use smaller type for a long table on a low page, so that its heading and introduction fit
        # on the same page
        size = max(min(style.text - 1, 11.5, 0.62 * style.height / (1.6 * len(cells))), 8.5)
        widths = _column_widths(cells, style, size)
        grid = _grid(style, size)
        super().__init__(cells, colWidths=widths, rowHeights=1.6 * size, hAlign="LEFT", style=grid)
        self._table = table
        self._spots = spots

    def draw(self) -> None:
        """Draw the table, and record the places of its parts."""
        super().draw()
        width = sum(cast("list[float]", self._colWidths))
        key = self._table.key
        self._spots.note(key, self, 0, width, self._height)
        tops = self._rowpositions  # from the top edge of the header to the bottom edge of the table
        for row in range(len(self._table.rows)):
            bottom = tops[row + 2]
            self._spots.note(f"{key}/row/{row}", self, bottom, width, tops[row + 1] - bottom)


class Picture(Flowable):
    """An image of fixed size that is only created when it is drawn in the final pass."""

    def __init__(
        self,
        size: tuple[float, float],
        make: Callable[[], Image.Image] | None,
        spots: Spots,
        key: str,
    ) -> None:
        super().__init__()
        self.width, self.height = size
        self._make = make
        self._spots = spots
        self._key = key

    def draw(self) -> None:
        """Draw the image (nothing in a draft), and record its place."""
        if self._make is not None:
            self.canv.drawImage(ImageReader(self._make()), 0, 0, self.width, self.height)
        self._spots.note(self._key, self, 0, self.width, self.height)


def contents(
    sections: Sequence[ReportSection], starts: Mapping[str, int], style: DocumentStyle
) -> GridTable:
    """Return the table of contents, whose height does not depend on the page numbers."""
    rows = [[section.title, str(starts.get(section.key, 0))] for section in sections]
    looks: list[tuple[Any, ...]] = [("ALIGN", (1, 0), (1, -1), "RIGHT")]
    for row, section in enumerate(sections):
        font = FONT if section.level else BOLD
        looks.append(("FONT", (0, row), (-1, row), font, 0.95 * style.text))
        looks.append(("LEFTPADDING", (0, row), (0, row), 16 * section.level))
    return GridTable(
        rows, colWidths=(style.width - 40, 40), rowHeights=1.5 * style.text, style=looks
    )


def _column_widths(cells: list[list[str]], style: DocumentStyle, size: float) -> list[float]:
    """Return column widths stretched towards the text width, but not so far that rows are hard to
    follow.
    """
    columns = zip(*cells, strict=True)
    natural = [max(stringWidth(cell, BOLD, size) for cell in column) + 18 for column in columns]
    goal = min(style.width, max(sum(natural), 43 * style.text))
    return [width * goal / sum(natural) for width in natural]


def _grid(style: DocumentStyle, size: float) -> list[tuple[Any, ...]]:
    everything = (0, 0), (-1, -1)
    return [
        ("FONT", *everything, FONT, size),
        ("FONT", (0, 0), (-1, 0), BOLD, size),
        ("ALIGN", (1, 0), (-1, -1), "RIGHT"),
        ("VALIGN", *everything, "MIDDLE"),
        ("BACKGROUND", (0, 0), (-1, 0), HexColor(style.accent)),
        ("TEXTCOLOR", (0, 0), (-1, 0), white),
        ("LINEBELOW", *everything, 0.4, HexColor("#999999")),
    ]
