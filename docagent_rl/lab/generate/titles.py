"""Titles that a question can name: each has one answer, and it can be seen."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

_FEWEST_LETTERS = 3


class Titled(Protocol):
    """A bookmark or a heading."""

    @property
    def title(self) -> str:
        """As it is written."""
        ...

    @property
    def page(self) -> int | None:
        """Where it leads, 1-based."""
        ...


def folded(text: str) -> str:
    """Text with case and white space aside."""
    return " ".join(text.split()).casefold()


def askable(entries: Sequence[Titled], num_pages: int, text: Callable[[int], str]) -> list[int]:
    """Places of entries whose title has three letters or more, occurs once, and is printed on its page.

    Otherwise a question for its page would have two answers, or one that cannot be seen.

    Args:
        entries: of a document.
        num_pages: of the document; entries that lead to none of its pages are left out.
        text: of a page, 1-based; asked once for each.
    """
    titles = Counter(folded(entry.title) for entry in entries)
    read = functools.cache(lambda page: folded(text(page)))

    def seen(entry: Titled) -> bool:
        title, page = folded(entry.title), entry.page
        if page is None or not 1 <= page <= num_pages or titles[title] > 1:
            return False
        return sum(map(str.isalpha, title)) >= _FEWEST_LETTERS and title in read(page)

    return [place for place, entry in enumerate(entries) if seen(entry)]
