"""From the pages of a benchmark to pages that count from 1."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

CLEARLY = 5
"""Factor by which more citations must contradict the documented base than the other one to overrule it."""


class PageBase(IntEnum):
    """The number of a document's first page."""

    ZERO = 0
    ONE = 1

    @property
    def other(self) -> PageBase:
        """The other base."""
        return PageBase(1 - self)


@dataclass(frozen=True, slots=True)
class FoundBase:
    """The base that a benchmark's pages count from, and its evidence."""

    base: PageBase
    expected: PageBase
    cited: int
    """Citations of pages."""
    measured: int
    """Those of documents whose length is known."""
    outside: tuple[int, int]
    """Citations outside their document if pages counted from 0, and from 1."""
    set_by_option: bool = False
    certain: bool = False
    """The documented base was checked on the released files."""

    @property
    def doubtful(self) -> bool:
        """Whether it is not the documented one, or more citations contradict it than the other.

        Of a benchmark whose base is certain no doubt arises before documents are measured.
        """
        if self.certain and not self.measured:  # stray zeros alone, and no length that last pages could pass
            return False
        contradicted = self.outside[self.base] > self.outside[self.base.other]
        return (self.base is not self.expected and not self.set_by_option) or contradicted

    def __str__(self) -> str:
        how = "as documented" if self.base is self.expected else f"documented is {self.expected.value}"
        how = f"as --page-base says, {how}" if self.set_by_option else how
        return (
            f"pages count from {self.base.value} ({how}); {self.cited} citations, {self.measured} of them in "
            f"documents of known length: {self.outside[0]} are outside by base 0, {self.outside[1]} by base 1"
        )


def find_base(
    cites: Iterable[tuple[int, int | None]],
    expected: PageBase,
    *,
    certain: bool,
    chosen: PageBase | None = None,
) -> FoundBase:
    """Find out how pages are counted: as documented, unless clearly more citations contradict it.

    Args:
        cites: page number and length of its document, None when it is not known.
        expected: the documented base.
        certain: it was checked on the released file, whose errors must not overrule it.
        chosen: holds whatever is found.
    """
    listed = list(cites)
    measured = sum(length is not None for _, length in listed)

    def outside(base: PageBase) -> int:
        """Count the citations that no page answers to."""
        return sum(
            number < base or (length is not None and number > length - 1 + base) for number, length in listed
        )

    counts = {base: outside(base) for base in PageBase}
    clearly = 0 < counts[expected] >= counts[expected.other] * CLEARLY
    found = expected.other if clearly and measured and not certain else expected
    return FoundBase(
        found if chosen is None else chosen,
        expected,
        len(listed),
        measured,
        (counts[PageBase.ZERO], counts[PageBase.ONE]),
        chosen is not None,
        certain,
    )
