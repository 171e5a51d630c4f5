"""Lines of pages: without running headers and footers, and with sizes that scans share."""

from __future__ import annotations

import re
from bisect import bisect, bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

from docagent_rl.documents.contents.labels import is_caption, read_label, roman
from docagent_rl.documents.typography import MEASURED, Line

Pages = Mapping[int, Sequence[Line]]
"""Lines of each page, by 1-based number in page order."""

LARGER = 1.1
"""Times the body's size from which print is large."""

_REPEATED_SHARE = 0.3
_EDGE = 2
_FEWEST = 3
_LONGEST = 300
_LONGEST_FOLIO = 5
_DIGITS = re.compile(r"\d+")
_FOLIO = re.compile(r"(?:(\d{1,4}|[ivxlc]{1,8})\s+)?(.*?)(?:\s+(\d{1,4}|[ivxlc]{1,8}))?")
_BODY = 1.12
_USUAL = 0.97
_SPAN = 1.2
"""Ratio of the largest to the smallest size that are one: lines set alike measure a twelfth more or less."""
_MOST = 1 << 62

_Weighted = Sequence[tuple[float, int]]
"""`(size, letters)`, sorted."""


class Print(NamedTuple):
    """The print of a line; the larger one sorts behind."""

    size: float
    bold: bool
    font: str


NO_PRINT = Print(0.0, False, "")


class Block(NamedTuple):
    """Lines that make up one heading."""

    page: int
    first: int
    """Index of the first line on the page; -1: the heading was not found there."""
    last: int
    text: str
    print: Print = NO_PRINT


def print_of(line: Line) -> Print:
    """Return the print of a line."""
    return Print(line.style.size, line.style.bold, line.style.font) if line.style else NO_PRINT


def body_print(pages: Pages) -> tuple[Print, float]:
    """Return the print of most letters, and the size in points of most that have one; 0.0 for none."""
    prints: Counter[Print] = Counter()
    sizes: Counter[float] = Counter()
    for line in (line for lines in pages.values() for line in lines):
        prints[print_of(line)] += len(line.text)
        if line.style:
            sizes[line.style.size] += len(line.text)
    usual = max(prints, key=lambda style: (prints[style], style), default=NO_PRINT)
    return usual, max(sizes, key=lambda size: (sizes[size], -size), default=0.0)


def body_lines(pages: Pages) -> dict[int, list[Line]]:
    """Return `pages` without running headers and footers.

    A line is one when more than 30 % of the pages, and at least 3, hold it, numbers not told apart (a
    heading of a short document may well stand on 2: on its contents page, too). Or when it is among the
    first or last two lines of at least 3 pages (2 with page numbers in it), page numbers aside, as is the
    title of a chapter on top of its pages. A number there that 30 % of the pages have in step is a page
    number by itself.
    """
    masks = {page: [_masked(line.text) for line in lines] for page, lines in pages.items()}
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
    # numbers do not tell lines apart, save those of sections, figures and tables
    if read_label(line) is not None or is_caption(line):
        return line.casefold()
    return _DIGITS.sub("#", line.casefold())


class _Edge(NamedTuple):
    """A line at the edge of a page, with the page numbers that may stand at its ends."""

    page: int
    index: int
    text: str
    words: str
    """Without the numbers."""
    first: list[int]
    last: list[int]


def _running(pages: Pages) -> set[tuple[int, int]]:
    """Return `(page, index of the line)` of the running headers and footers at the edges of pages.

    The first of equal lines without a page number stays: it may be the heading that the others repeat.
    """
    edges = [
        _edge(page, index, lines[index].text)
        for page, lines in pages.items()
        for index in {*range(len(lines))[:_EDGE], *range(len(lines))[-_EDGE:]}
    ]
    # distance between a page's place and its printed number, where many pages agree
    votes = Counter(edge.page - number for edge in edges for number in edge.last)
    many = max(_FEWEST, _REPEATED_SHARE * len(pages))
    running: set[tuple[int, int]] = set()
    holders: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
    for edge in edges:
        agreed = max((votes[edge.page - number] for number in (*edge.first, *edge.last)), default=0)
        if agreed >= many:
            running.add((edge.page, edge.index))
        numbered = agreed >= _FEWEST
        holders[edge.words if numbered else edge.text.casefold()].append((edge.page, edge.index, numbered))
    for places in holders.values():
        fewest = 2 if any(numbered for _, _, numbered in places) else _FEWEST
        if len({page for page, _, _ in places}) >= fewest:
            plain = [(page, index) for page, index, numbered in places if not numbered]
            running.update((page, index) for page, index, _ in places)
            running.difference_update(plain[:1])
    return running


def _edge(page: int, index: int, text: str) -> _Edge:
    # every line matches: all of it may be words
    found = cast("re.Match[str]", _FOLIO.fullmatch(text[:_LONGEST]))
    first, words, last = found.groups()
    if words.isdecimal() and len(words) < _LONGEST_FOLIO:
        return _Edge(page, index, text, "", [], [int(words)])
    first, last = ([int(end) if end.isdecimal() else roman(end)] if end else [] for end in (first, last))
    return _Edge(page, index, text, words.casefold(), first, last)


def settled(pages: Pages) -> dict[int, Sequence[Line]]:
    """Return lines with sizes that those set alike share, as they do in a text layer.

    Sizes that OCR measures differ from line to line. Those within an eighth of the median over all letters,
    or not above the size that all but 3 in 100 have, are of the size of the body. Larger and smaller ones
    fall into groups that span a fifth each, counted from there, and get the median of their group. Lines of
    text layers stay as they are.
    """
    measured = sorted(
        (_measured(line), len(line.text)) for lines in pages.values() for line in lines if _measured(line) > 0
    )
    if not measured:
        return dict(pages)
    groups = _groups(measured)
    starts = [group[0][0] for group in groups]
    sizes = [round(_quantile(group, 0.5), 1) for group in groups]

    def one(line: Line) -> Line:
        if line.style is None or (size := _measured(line)) <= 0:
            return line
        return replace(line, style=replace(line.style, size=sizes[bisect(starts, size) - 1]))

    return {page: [one(line) for line in lines] for page, lines in pages.items()}


def _measured(line: Line) -> float:
    return line.style.size if line.style and line.style.font == MEASURED else 0.0


def _groups(measured: _Weighted) -> list[_Weighted]:
    """Return sizes that are one, from small to large."""
    body = _quantile(measured, 0.5)
    first = bisect_left(measured, (body / _BODY, 0))
    last = bisect_right(measured, (max(body * _BODY, _quantile(measured, _USUAL)), _MOST))
    groups = [measured[first:last]]
    while last < len(measured):
        end = bisect_left(measured, (measured[last][0] * _SPAN, 0))
        groups.append(measured[last:end])
        last = end
    while first > 0:
        start = bisect_right(measured, (measured[first - 1][0] / _SPAN, _MOST))
        groups.insert(0, measured[start:first])
        first = start
    return groups


def _quantile(sizes: _Weighted, share: float) -> float:
    needed, passed = share * sum(count for _, count in sizes), 0
    for size, count in sizes:
        passed += count
        if passed >= needed:
            return size
    return sizes[-1][0]
