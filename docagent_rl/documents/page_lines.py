"""Lines of pages without running headers and footers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from docagent_rl.documents.captions import is_caption
from docagent_rl.documents.numbering import read_label, roman
from docagent_rl.documents.typography import Line

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


def body_lines(pages: Pages) -> dict[int, list[Line]]:
    """`pages` without running headers and footers.

    A line is one when more than 30 % of the pages, and at least 3, hold it, numbers not told apart (a
    heading of a short document may well stand on 2: on its contents page, too). Or when it is among the
    first or last two lines of at least 3 pages (2 with page numbers in it), page numbers aside, as is the
    title of a chapter on top of its pages. A number there that 30 % of the pages have in step is a page
    number by itself.
    """
    seen = Counter(mask for lines in pages.values() for mask in {_masked(line.text) for line in lines})
    most = max(_REPEATED_SHARE * len(pages), 2)
    running = _running(pages)
    return {
        page: [
            line
            for index, line in enumerate(lines)
            if seen[_masked(line.text)] <= most and (page, index) not in running
        ]
        for page, lines in pages.items()
    }


def body_size(pages: Pages) -> float:
    """The size in points in which most letters are set; 0.0 where no line has one."""
    letters: Counter[float] = Counter()
    for lines in pages.values():
        for line in lines:
            if line.style:
                letters[line.style.size] += len(line.text)
    return max(letters, key=lambda size: (letters[size], -size), default=0.0)


def _running(pages: Pages) -> set[tuple[int, int]]:
    """`(page, index of the line)` of the running headers and footers at the edges of pages.

    The first of equal lines without a page number stays: it may be the heading that the others repeat.
    """
    edges = [
        (page, index, lines[index].text) for page, lines in pages.items() for index in _edges(len(lines))
    ]
    parts = [_split(text) for _, _, text in edges]
    # distance between a page's place and its printed number, where many pages agree
    votes = Counter(page - n for (page, _, _), part in zip(edges, parts, strict=True) for n in part.last)
    certain = {
        offset for offset, count in votes.items() if count >= max(_FEWEST, _REPEATED_SHARE * len(pages))
    }
    running: set[tuple[int, int]] = set()
    holders: dict[str, list[tuple[int, int, bool]]] = defaultdict(list)
    for (page, index, text), part in zip(edges, parts, strict=True):
        numbered = any(votes[page - n] >= _FEWEST for n in (*part.first, *part.last))
        if any(page - n in certain for n in (*part.first, *part.last)):
            running.add((page, index))
        holders[part.words if numbered else text.casefold()].append((page, index, numbered))
    for places in holders.values():
        fewest = 2 if any(numbered for _, _, numbered in places) else _FEWEST
        if len({page for page, _, _ in places}) >= fewest:
            plain = [(page, index) for page, index, numbered in places if not numbered]
            running.update((page, index) for page, index, _ in places)
            running.difference_update(plain[:1])
    return running


class _Parts(NamedTuple):
    """An edge line without the numbers at its ends, and these, none or one each."""

    first: list[int]
    words: str
    last: list[int]


def _split(text: str) -> _Parts:
    # every line matches: all of it may be words
    found = cast("re.Match[str]", _FOLIO.fullmatch(text[:_LONGEST]))
    first, words, last = found.groups()
    if words.isdecimal() and len(words) < _LONGEST_FOLIO:
        return _Parts([], "", [int(words)])
    return _Parts(_folio(first), words.casefold(), _folio(last))


def _folio(text: str | None) -> list[int]:
    if not text:
        return []
    return [int(text) if text.isdecimal() else roman(text)]


def _edges(count: int) -> set[int]:
    return {*range(min(_EDGE, count)), *range(max(count - _EDGE, 0), count)}


def _masked(line: str) -> str:
    """Numbers do not tell lines apart, save those of sections, figures and tables."""
    if read_label(line) is not None or is_caption(line):
        return line.casefold()
    return _DIGITS.sub("#", line.casefold())
