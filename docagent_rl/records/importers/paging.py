"""From the pages of a benchmark to pages that count from 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class PageBase(IntEnum):
    """The number of a document's first page."""

    ZERO = 0
    ONE = 1


@dataclass(frozen=True, slots=True)
class FoundBase:
    """How a benchmark's pages are counted."""

    base: PageBase
    expected: PageBase
    cited: int
    """Citations of pages."""
    measured: int
    """Those of documents whose length is known."""
    outside_zero: int
    """Citations outside their document if pages counted from 0."""
    outside_one: int
    """The same from 1."""

    def __str__(self) -> str:
        """One sentence for a report."""
        how = "as documented" if self.base is self.expected else f"documented is {self.expected.value}"
        return (
            f"pages count from {self.base.value} ({how}); {self.cited} citations, {self.measured} of them in "
            f"documents of known length: {self.outside_zero} are outside by base 0, "
            f"{self.outside_one} by base 1"
        )


def find_base(cites: Iterable[tuple[int, int | None]], expected: PageBase, *, certain: bool) -> FoundBase:
    """How pages are counted: as documented, unless only the other way puts all of them into their documents.

    Args:
        cites: page number and length of its document, None when it is not known.
        expected: the documented base.
        certain: it was checked on the released file, whose stray errors must not overrule it.
    """
    cited = measured = 0
    outside = {PageBase.ZERO: 0, PageBase.ONE: 0}
    for number, length in cites:
        cited += 1
        measured += length is not None
        for base in PageBase:
            beyond = length is not None and number > length - 1 + base
            outside[base] += number < base or beyond
    other = PageBase.ONE if expected is PageBase.ZERO else PageBase.ZERO
    overruled = not certain and measured > 0 and outside[expected] > 0 and outside[other] == 0
    return FoundBase(
        other if overruled else expected,
        expected,
        cited,
        measured,
        outside[PageBase.ZERO],
        outside[PageBase.ONE],
    )
