"""Page images of Doc-V*: labelled grids of thumbnails (section 3.2, appendix A), page boxes (B).

This module only computes geometry; `docagent_rl.envs.images.render` renders the sheets.

The paper always shows every page: 468 pages take 42,900 visual tokens. In a training run the prompt
length is fixed, and documents that do not fit must not be dropped: `OverviewConfig.plans` makes
them fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from docagent_rl.documents.drawn import Resample, thumbnail_size
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.documents.settings import check_size
from docagent_rl.envs.images import (
    Colour,
    Fill,
    ImageRef,
    ImageSheet,
    SheetLabel,
    Size,
    Tile,
)

if TYPE_CHECKING:
    from docagent_rl.documents.store import Page

T = TypeVar("T")
_PADDING: Colour = (224, 224, 224)
"""The colour around a thumbnail."""


@dataclass(frozen=True, slots=True)
class ThumbnailGrid:
    """A sheet of equal cells in pixels, filled row by row.

    Each cell is a header band above a square for a thumbnail.
    """

    rows: int
    columns: int
    cell: int
    header: int

    @property
    def size(self) -> Size:
        """Size of the sheet, `(cell · columns, (cell + header) · rows)`."""
        return self.cell * self.columns, (self.cell + self.header) * self.rows

    def origin(self, index: int) -> tuple[int, int]:
        """Return the top left pixel of the index-th cell, from 0."""
        row, column = divmod(index, self.columns)
        return self.cell * column, (self.cell + self.header) * row


@dataclass(frozen=True, slots=True)
class OverviewStyle:
    """The layout of one document's sheets, in pixels (see `OverviewConfig`)."""

    cell: int = 256
    header: int = 24
    font: int = 18
    pages_per_sheet: int = 36

    def sheets(self, num_pages: int) -> int:
        """Return the number of sheets of a document."""
        return math.ceil(num_pages / self.pages_per_sheet)

    def grid(self, num_pages: int) -> ThumbnailGrid:
        """Return the grid of a sheet with this many pages."""
        return ThumbnailGrid(*grid_shape(num_pages), self.cell, self.header)

    def smaller(self, cell: int) -> OverviewStyle:
        """Return the style with smaller cells, and more of them on a sheet of the same area."""
        pages = self.pages_per_sheet * self.cell**2 // cell**2
        return OverviewStyle(cell, self.header, self.font, pages)


@dataclass(frozen=True, slots=True)
class OverviewPlan:
    """The overview of one document: the first page and every `stride`-th page after it.

    `full_cell` is the cell size in pixels without a limit on the prompt.
    """

    num_pages: int
    style: OverviewStyle
    full_cell: int
    stride: int = 1

    @property
    def shown(self) -> int:
        """The number of pages that it shows."""
        return -(-self.num_pages // self.stride)

    @property
    def sheets(self) -> int:
        """The number of its images."""
        return self.style.sheets(self.shown)

    @property
    def adapted(self) -> bool:
        """Return whether it differs from the paper's overview."""
        return self.stride > 1 or self.style.cell < self.full_cell

    @property
    def sizes(self) -> list[Size]:
        """The sizes of its images in pixels, in order."""
        full, rest = divmod(self.shown, self.style.pages_per_sheet)
        counts = [self.style.pages_per_sheet] * full + [rest] * bool(rest)
        return [self.style.grid(count).size for count in counts]

    def choose(self, pages: Sequence[T]) -> Sequence[T]:
        """Return the pages among a document's pages that it shows, in order."""
        return pages[:: self.stride]

    def describe(self) -> str:
        """Describe the overview in a few words, for reports."""
        cells = f"thumbnails of {self.style.cell} px"
        if self.style.cell < self.full_cell:
            cells += f" instead of {self.full_cell}"
        return cells if self.stride == 1 else f"{cells}, one page in {self.stride}"


def grid_shape(num_pages: int) -> tuple[int, int]:
    """Return `(rows, columns)` of a sheet: `rows = ceil(sqrt(n))`, `columns = ceil(n / rows)`."""
    if num_pages < 1:
        raise ValueError(f"a sheet needs at least one page, found {num_pages}")
    # integer arithmetic, since a floating-point root of a large square may be slightly too large
    rows = math.isqrt(num_pages - 1) + 1
    return rows, -(-num_pages // rows)


def overview(pages: Sequence[Page], style: OverviewStyle) -> Iterator[ImageSheet]:
    """Yield the sheets of a document: groups of consecutive pages, labelled with their numbers."""
    for start in range(0, len(pages), style.pages_per_sheet):
        yield _sheet(pages[start : start + style.pages_per_sheet], style)


def _sheet(pages: Sequence[Page], style: OverviewStyle) -> ImageSheet:
    grid = style.grid(len(pages))
    cells = [grid.origin(index) for index in range(len(pages))]
    return ImageSheet(
        canvas=grid.size,
        size=grid.size,
        tiles=tuple(_thumbnail(page, at, grid) for page, at in zip(pages, cells, strict=True)),
        fills=tuple(Fill(_square(at, grid), _PADDING) for at in cells),
        labels=tuple(
            SheetLabel(
                str(page.ref.page), (left, top, left + grid.cell, top + grid.header), style.font
            )
            for page, (left, top) in zip(pages, cells, strict=True)
            if grid.header
        ),
    )


def _square(at: tuple[int, int], grid: ThumbnailGrid) -> tuple[int, int, int, int]:
    left = at[0]
    top = at[1] + grid.header
    return left, top, left + grid.cell, top + grid.cell


def _thumbnail(page: Page, at: tuple[int, int], grid: ThumbnailGrid) -> Tile:
    size = thumbnail_size(page.size, grid.cell)
    left, top, *_ = _square(at, grid)
    image = ImageRef(page.ref, page.image_hash, (0, 0, *page.size), size, Resample.LANCZOS)
    return Tile(image, (left + (grid.cell - size[0]) // 2, top + (grid.cell - size[1]) // 2))


class PageBox(BaseModel):
    """Downscales a page to fit a box, keeping its aspect ratio.

    The paper limits pages to 1024 by 768 and does not state the orientation. Here the box is
    rotated with the page, so that a portrait A4 page has about 1,000 visual tokens, as in the
    paper; `landscape` keeps the box horizontal.

    Raises (all methods that take a size):
        DisplayError: a side is below 1 px, or the aspect ratio is above 200.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    long_side: int = Field(1024, ge=1)
    """Maximum pixels of the longer side, or of the width with `landscape`."""
    short_side: int = Field(768, ge=1)
    """Maximum pixels of the shorter side, or of the height with `landscape`."""
    landscape: bool = False
    """Keep the box horizontal, whatever the orientation of the page."""
    grid: ImageGrid = ImageGrid()
    """The grid of the model's image processor; set by `docagent.model_family`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.short_side > self.long_side and not self.landscape:
            raise ValueError("short_side must not be above long_side")
        if min(self.long_side, self.short_side) < self.grid.unit:
            raise ValueError(
                f"a box narrower than one visual token ({self.grid.unit} pixels) shows nothing"
            )
        return self

    def shown(self, size: Size) -> Size:
        """Return the size at which a page of `size` is passed to the processor.

        `f = min(1, long / max(w, h), short / min(w, h))`, then `(round(w·f), round(h·f))`, at least
        1 px.
        """
        check_size(size)
        wide, high = size if self.landscape else (max(size), min(size))
        scale = min(1.0, self.long_side / wide, self.short_side / high)
        shown = max(1, round(size[0] * scale)), max(1, round(size[1] * scale))
        check_size(shown)
        return shown

    def encoder(self, shown: Size) -> Size:
        """Return the size of a shown image after the processor's rounding."""
        return self.grid.resize(shown)

    def tokens(self, shown: Size) -> int:
        """Return the number of visual tokens of a shown image."""
        return self.grid.tokens(shown)

    def keeps(self, shown: Size) -> bool:
        """Return whether the processor does not shrink an image, except by rounding to whole
        tokens.

        Enlarging a very small image is allowed.
        """
        rounded = (round(side / self.grid.unit) * self.grid.unit for side in shown)
        return all(
            after >= before for after, before in zip(self.encoder(shown), rounded, strict=True)
        )

    def max_tokens(self, side_ratio: float = 2.0) -> int:
        """Return an upper bound on the visual tokens of a page of at most this aspect ratio."""
        unit = self.grid.unit
        cells = math.floor(self.long_side / unit + 0.5) * math.floor(self.short_side / unit + 0.5)
        least = self.grid.image_limits()[0] / unit**2
        # the processor enlarges small pages and rounds both sides up
        spread = math.sqrt(side_ratio) + 1 / math.sqrt(side_ratio)
        enlarged = least + math.sqrt(least) * spread + 1
        return max(cells, math.floor(enlarged))


def sheet_headings(
    plan: OverviewPlan, pages: Sequence[int], write: Callable[..., str]
) -> Iterator[str]:
    """Yield the heading of each sheet; the first one also says that pages are left out, if any are.

    Args:
        plan: the plan of the overview.
        pages: the page numbers on the sheets, in order.
        write: renders a part of the prompt file (`ToolEnv.text`).
    """
    size = plan.style.pages_per_sheet
    remark = write("sampled") + "\n" if plan.stride > 1 else ""
    for number in range(plan.sheets):
        group = pages[number * size : (number + 1) * size]
        line = write(
            "sheet",
            sheet=number + 1,
            sheets=plan.sheets,
            first_page=group[0],
            last_page=group[-1],
        )
        yield remark + line
        remark = ""
