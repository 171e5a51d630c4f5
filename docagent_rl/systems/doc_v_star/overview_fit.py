"""Making the overview of a long document fit the prompt (Doc-V*; the paper names no limit).

The paper shows every page, whatever that takes: 468 pages are 42,900 visual tokens. A training run has a
prompt of fixed length, and documents that do not fit must not vanish from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from docagent_rl.envs.images import Size
from docagent_rl.systems.doc_v_star.overview import OverviewStyle

T = TypeVar("T")


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
    """What the overview of one document shows.

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
        """Those of a document's pages that it shows, in order."""
        return pages[:: self.stride]

    def describe(self) -> str:
        """In a few words, for reports."""
        cells = f"thumbnails of {self.style.cell} px"
        if self.style.cell < self.full_cell:
            cells += f" instead of {self.full_cell}"
        return cells if self.stride == 1 else f"{cells}, one page in {self.stride}"


def plans(
    num_pages: int, full: OverviewStyle, smaller: Sequence[int], fit: OverviewFit
) -> Iterator[OverviewPlan]:
    """What may be shown of a document, best first.

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
