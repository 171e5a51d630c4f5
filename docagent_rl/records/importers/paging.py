"""From the pages of a benchmark to pages that count from 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

CLEARLY = 5
"""How many times as many citations must contradict the documented base as the other one to overrule it."""


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
    told: bool = False
    """Whoever imports said so."""
    certain: bool = False
    """The documented base was checked on the released files."""

    @property
    def doubtful(self) -> bool:
        """Whether it is not the documented one, or more citations contradict it than the other.

        Of a benchmark whose base is certain no doubt arises before documents are measured.
        """
        if self.certain and not self.measured:  # stray zeros alone, and no length that last pages could pass
            return False
        zero, one = self.outside_zero, self.outside_one
        against, other = (zero, one) if self.base is PageBase.ZERO else (one, zero)
        return (self.base is not self.expected and not self.told) or against > other

    def __str__(self) -> str:
        """One sentence for a report."""
        how = "as documented" if self.base is self.expected else f"documented is {self.expected.value}"
        how = f"as --page-base says, {how}" if self.told else how
        return (
            f"pages count from {self.base.value} ({how}); {self.cited} citations, {self.measured} of them in "
            f"documents of known length: {self.outside_zero} are outside by base 0, "
            f"{self.outside_one} by base 1"
        )


def find_base(
    cites: Iterable[tuple[int, int | None]],
    expected: PageBase,
    *,
    certain: bool,
    told: PageBase | None = None,
) -> FoundBase:
    """How pages are counted: as documented, unless clearly more of them contradict it.

    Args:
        cites: page number and length of its document, None when it is not known.
        expected: the documented base.
        certain: it was checked on the released file, whose errors must not overrule it.
        told: holds whatever is found.
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
    clearly = outside[expected] > 0 and outside[other] * CLEARLY <= outside[expected]
    found = other if clearly and measured > 0 and not certain else expected
    return FoundBase(
        found if told is None else told,
        expected,
        cited,
        measured,
        outside[PageBase.ZERO],
        outside[PageBase.ONE],
        told is not None,
        certain,
    )
