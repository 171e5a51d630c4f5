"""A document at a glance: grids of labelled page thumbnails (Doc-V*, section 3.2 and appendix A).

Only geometry; no pixel is touched here. The sheets are drawn by `docagent_rl.envs.delivery`.

The paper shows every page, whatever that takes: 468 pages are 42,900 visual tokens. A training run has a
prompt of fixed length, and documents that do not fit must not vanish from it: `plans` makes them fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from docagent_rl.documents import Page
from docagent_rl.envs.images import Colour, Fill, ImageRef, ImageSheet, Label, Resample, Size, Tile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Grid:
    """A sheet of equal cells, filled row by row: a header band over a square for a thumbnail, in pixels."""

    rows: int
    columns: int
    cell: int
    header: int

    @property
    def size(self) -> Size:
        """Size of the sheet, `(cell · columns, (cell + header) · rows)`."""
        return self.cell * self.columns, (self.cell + self.header) * self.rows

    def place(self, index: int) -> tuple[int, int]:
        """Return `(row, column)` of the index-th cell, all from 0."""
        return divmod(index, self.columns)

    def origin(self, index: int) -> tuple[int, int]:
        """Return the top left pixel of the index-th cell."""
        row, column = self.place(index)
        return self.cell * column, (self.cell + self.header) * row


@dataclass(frozen=True, slots=True)
class OverviewStyle:
    """How the sheets of one document look, in pixels (see `OverviewConfig`)."""

    cell: int = 256
    header: int = 24
    font: int = 18
    pages_per_sheet: int = 36
    padding: Colour = (224, 224, 224)

    def sheets(self, num_pages: int) -> int:
        """Return the number of sheets of a document."""
        return math.ceil(num_pages / self.pages_per_sheet)

    def grid(self, num_pages: int) -> Grid:
        """Return the grid of a sheet with this many pages."""
        return Grid(*grid_shape(num_pages), self.cell, self.header)

    def smaller(self, cell: int) -> OverviewStyle:
        """Return the same with smaller cells, and as many more of them as the area of a sheet then has."""
        pages = self.pages_per_sheet * self.cell**2 // cell**2
        return OverviewStyle(cell, self.header, self.font, pages, self.padding)


class OverviewFit(StrEnum):
    """What becomes of an overview that is too long for the prompt."""

    ERROR = "error"
    """Its document cannot be played."""
    SHRINK = "shrink"
    """It gets smaller thumbnails; where the smallest are still too many, the document cannot be played."""
    SAMPLE = "sample"
    """It gets smaller thumbnails, and where the smallest are still too many it shows one page in two, or in
    three and so on, as large as fits, and says so."""


@dataclass(frozen=True, slots=True)
class OverviewPlan:
    """The overview of one document.

    Args:
        num_pages: pages of the document.
        style: how its sheets look.
        full_cell: side of the cells it would have without a limit, in pixels.
        stride: it shows the first page and every `stride`-th from there.
    """

    num_pages: int
    style: OverviewStyle
    full_cell: int
    stride: int = 1

    @property
    def shown(self) -> int:
        """Pages it shows."""
        return -(-self.num_pages // self.stride)

    @property
    def sheets(self) -> int:
        """Number of its images."""
        return self.style.sheets(self.shown)

    @property
    def adapted(self) -> bool:
        """It is not what the paper shows."""
        return self.stride > 1 or self.style.cell < self.full_cell

    @property
    def sizes(self) -> list[Size]:
        """Sizes of its images in pixels, in order."""
        full, rest = divmod(self.shown, self.style.pages_per_sheet)
        counts = [self.style.pages_per_sheet] * full + [rest] * bool(rest)
        return [self.style.grid(count).size for count in counts]

    def choose(self, pages: Sequence[T]) -> Sequence[T]:
        """Return those of a document's pages that it shows, in order."""
        return pages[:: self.stride]

    def describe(self) -> str:
        """Describe it in a few words, for reports."""
        cells = f"thumbnails of {self.style.cell} px"
        if self.style.cell < self.full_cell:
            cells += f" instead of {self.full_cell}"
        return cells if self.stride == 1 else f"{cells}, one page in {self.stride}"


def plans(
    num_pages: int, full: OverviewStyle, smaller: Sequence[int], fit: OverviewFit
) -> Iterator[OverviewPlan]:
    """Yield what may be shown of a document, best first.

    Args:
        num_pages: its pages.
        full: the sheets without a limit.
        smaller: cells in pixels, falling; those that are not below the cells of `full` are passed over.
        fit: what may be changed.
    """
    styles = [full]
    if fit is not OverviewFit.ERROR:
        styles += [full.smaller(cell) for cell in smaller if cell < full.cell]
    for stride in range(1, num_pages + 1 if fit is OverviewFit.SAMPLE else 2):
        for style in styles:
            yield OverviewPlan(num_pages, style, full.cell, stride)


def grid_shape(num_pages: int) -> tuple[int, int]:
    """Return `(rows, columns)` of a sheet: `rows = ceil(sqrt(n))`, `columns = ceil(n / rows)`.

    Raises:
        ValueError: there are no pages.
    """
    if num_pages < 1:
        raise ValueError(f"a sheet holds at least one page, not {num_pages}")
    # in whole numbers: the root of a large square must not come out a little too large
    rows = math.isqrt(num_pages - 1) + 1
    return rows, -(-num_pages // rows)


def thumbnail_size(page: Size, cell: int) -> Size:
    """Return the size of a page in a square: `f = min(cell / w, cell / h)`, sides rounded, at least 1 px."""
    scale = min(cell / page[0], cell / page[1])
    return max(1, round(page[0] * scale)), max(1, round(page[1] * scale))


def choose_style(
    style: OverviewStyle, num_pages: int, *, max_sheets: int, smaller_cells: Sequence[int]
) -> OverviewStyle:
    """Return the first style that needs no more than `max_sheets`: `style`, then the smaller cells in turn.

    Where even the smallest cells need more sheets, there are more sheets: no page is ever left out.
    """
    styles = [style, *(style.smaller(cell) for cell in smaller_cells)]
    return next((one for one in styles if one.sheets(num_pages) <= max_sheets), styles[-1])


def overview(pages: Sequence[Page], style: OverviewStyle) -> Iterator[ImageSheet]:
    """Yield the sheets of a document, consecutive pages in groups, labelled with their own numbers."""
    for start in range(0, len(pages), style.pages_per_sheet):
        yield _sheet(pages[start : start + style.pages_per_sheet], style)


def _sheet(pages: Sequence[Page], style: OverviewStyle) -> ImageSheet:
    grid = style.grid(len(pages))
    cells = [grid.origin(index) for index in range(len(pages))]
    return ImageSheet(
        canvas=grid.size,
        size=grid.size,
        tiles=tuple(_thumbnail(page, at, grid) for page, at in zip(pages, cells, strict=True)),
        fills=tuple(Fill(_square(at, grid), style.padding) for at in cells),
        labels=tuple(
            Label(str(page.ref.page), (left, top, left + grid.cell, top + grid.header), style.font)
            for page, (left, top) in zip(pages, cells, strict=True)
            if grid.header
        ),
    )


def _square(at: tuple[int, int], grid: Grid) -> tuple[int, int, int, int]:
    left, top = at[0], at[1] + grid.header
    return left, top, left + grid.cell, top + grid.cell


def _thumbnail(page: Page, at: tuple[int, int], grid: Grid) -> Tile:
    size = thumbnail_size(page.size, grid.cell)
    left, top, *_ = _square(at, grid)
    image = ImageRef(page.ref, page.image_hash, (0, 0, *page.size), size, Resample.LANCZOS)
    return Tile(image, (left + (grid.cell - size[0]) // 2, top + (grid.cell - size[1]) // 2))
