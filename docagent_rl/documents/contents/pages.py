"""Removal of running headers and footers from the lines of pages."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from docagent_rl.documents.contents.captions import is_caption
from docagent_rl.documents.contents.labels import read_label, roman

Pages = Mapping[int, Sequence[str]]
"""Lines of each page, by 1-based number in page order."""

_REPEATED_SHARE = 0.3
_EDGE = 2
_FEWEST = 3
_LONGEST = 300
_LONGEST_FOLIO = 5
_DIGITS = re.compile(r"\d+")
_FOLIO = re.compile(r"(?:(\d{1,4}|[ivxlc]{1,8})\s+)?(.*?)(?:\s+(\d{1,4}|[ivxlc]{1,8}))?")


def body_lines(pages: Pages) -> dict[int, list[str]]:
    """Return `pages` without running headers and footers.

    A line is a running header or footer in any of these cases:

    - More than 30 % of the pages, and at least 3, contain it, with any numbers. (In a short
      document, a heading may well be on 2 pages: the contents page has it, too.)
    - It is among the first or last two lines of at least 3 pages (2 if it has a page number), not
      counting page numbers, such as the title of a chapter at the top of its pages.
    - It has a number there that increases with the pages on 30 % of them: a page number.
    """
    masks = {page: [_masked(line) for line in lines] for page, lines in pages.items()}
    seen = Counter(mask for page in masks.values() for mask in set(page))
    most = max(_REPEATED_SHARE * len(pages), 2)
    running = _running(pages)
    return {
        page: [
            line
            for index, line in enumerate(lines)
            if seen[masks[page][index]] <= most and (page, index) not in running
        ]
        for page, lines in pages.items()
    }


def _masked(line: str) -> str:
    # ignore numbers when comparing lines, except those of sections, figures and tables
    if read_label(line) is not None or is_caption(line):
        return line.casefold()
    return _DIGITS.sub("#", line.casefold())


class _Edge(NamedTuple):
    """A line at the top or bottom of a page, with the possible page numbers at its ends."""

    page: int
    index: int
    text: str
    words: str
    """The line without the numbers."""
    first: list[int]
    """The number at its start, if any."""
    last: list[int]
    """The number at its end, if any."""


def _running(pages: Pages) -> set[tuple[int, int]]:
    """Return `(page, index of the line)` of running headers and footers at the edges of pages.

    The first of equal lines without page numbers is not one of them: it may be the heading that the
    others repeat.
    """
    edges = [
        _edge(page, index, lines[index])
        for page, lines in pages.items()
        for index in {*range(len(lines))[:_EDGE], *range(len(lines))[-_EDGE:]}
    ]
    # the distance between a page's position and its printed number, on which many pages agree
    votes = Counter(edge.page - number for edge in edges for number in edge.last)
    many = max(_FEWEST, _REPEATED_SHARE * len(pages))
    running: set[tuple[int, int]] = set()
    holders: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
    for edge in edges:
        agreed = max((votes[edge.page - number] for number in (*edge.first, *edge.last)), default=0)
        if agreed >= many:
            running.add((edge.page, edge.index))
        numbered = agreed >= _FEWEST
        holders[edge.words if numbered else edge.text.casefold()].append(
            (edge.page, edge.index, numbered)
        )
    for places in holders.values():
        fewest = 2 if any(numbered for _, _, numbered in places) else _FEWEST
        if len({page for page, _, _ in places}) >= fewest:
            plain = [(page, index) for page, index, numbered in places if not numbered]
            running.update((page, index) for page, index, _ in places)
            running.difference_update(plain[:1])
    return running


def _edge(page: int, index: int, text: str) -> _Edge:
    label = read_label(text)
    if label and label.named and not label.title:
        # the number in "UNIT 3" is not a page number, even if each page begins a unit
        return _Edge(page, index, text, text.casefold(), [], [])
    # every line matches, since all of it may be words
    found = cast("re.Match[str]", _FOLIO.fullmatch(text[:_LONGEST]))
    first, words, last = found.groups()
    if words.isdecimal() and len(words) < _LONGEST_FOLIO:
        return _Edge(page, index, text, "", [], [int(words)])
    first, last = (
        [int(end) if end.isdecimal() else roman(end)] if end else [] for end in (first, last)
    )
    return _Edge(page, index, text, words.casefold(), first, last)
