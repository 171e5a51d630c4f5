"""A printed table of contents: its entries, and the pages of the file that they lead to."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from docagent_rl.documents.captions import is_caption
from docagent_rl.documents.numbering import read_label, roman, title_keys
from docagent_rl.documents.page_lines import Pages

_LONGEST = 300
_FEWEST_LEADERS = 4
_FEWEST_BARE = 6
_LEADER_SHARE = 0.3
_BARE_SHARE = 0.6
_FEWEST_ENTRIES = 3
_FOUND_SHARE = 0.5
_NEAR = 2
_WRAPPED = 3
_FIRST_LINES = 4
_FRONT_SHARE = 0.2
_FRONT_PAGES = 12
_LEADERS = re.compile(r"\s*(?:[.\u00b7\u2024\u2026\u30fb_]\s?){3,}\s*(?P<page>\d{1,4}|[ivxlc]{1,8})?\s*$")
_ENTRY = re.compile(
    r"(?P<title>\S.*?)(?P<leaders>\s*(?:[.\u00b7\u2024\u2026\u30fb_]\s?){2,}\s*|\s+)(?P<page>\d{1,4}|[ivxlc]{1,8})"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a printed table of contents.

    Args:
        title: without leaders and page.
        printed: the page number, negative for a Roman one.
        wrapped: the line before, when it has no page number: the title may begin there.
        leaders: whether dots lead to the number.
    """

    title: str
    printed: int
    wrapped: str
    leaders: bool


@dataclass(frozen=True, slots=True)
class Located:
    """An entry with its place in the file.

    Args:
        title: as it is printed in the table.
        page: 1-based place in the file.
        first: index of the line of this page where the heading begins; None when it was not found there.
        last: index of the line where it ends.
    """

    title: str
    page: int
    first: int | None
    last: int | None


@dataclass(frozen=True, slots=True)
class PrintedContents:
    """What a document's printed table of contents says.

    Args:
        entries: in the order of the table; empty when there is none that can be trusted.
        pages: of the file that hold printed tables (of contents, figures, tables), whether trusted or not.
    """

    entries: tuple[Located, ...]
    pages: frozenset[int]


def printed_contents(pages: Pages) -> PrintedContents:
    """Find the printed table of contents and where its entries lead.

    Printed page numbers are mapped to places by the headings themselves: the distance most entries agree on
    whose title stands alone on a line of some page. Of several lists (contents, then figures, then tables)
    the first whose titles are found counts; a list of captions does not.
    """
    tables = _table_pages(pages)
    spots = _Spots({page: lines for page, lines in pages.items() if page not in tables})
    for entries in _lists(pages, tables):
        located = _locate(entries, spots, last=max(pages))
        if located:
            return PrintedContents(tuple(located), tables)
    return PrintedContents((), tables)


def has_leaders(line: str) -> bool:
    """Whether a line ends in dot leaders, with or without a page number."""
    return _LEADERS.search(line[-_LONGEST:]) is not None


def _table_pages(pages: Pages) -> frozenset[int]:
    found = set()
    front = max(_FRONT_PAGES, _FRONT_SHARE * len(pages))
    for place, (page, lines) in enumerate(pages.items()):
        entries = [entry for entry in (_entry(line.text, "") for line in lines) if entry]
        leaders = sum(entry.leaders for entry in entries)
        dotted = leaders >= _FEWEST_LEADERS and leaders >= _LEADER_SHARE * len(lines)
        bare = place < front and len(entries) >= max(_FEWEST_BARE, _BARE_SHARE * len(lines))
        if dotted or (bare and _rises(entries)):
            found.add(page)
    # the end of a table may hold too few lines to be known by itself
    for page in sorted(found):
        entries = [_entry(line.text, "") for line in pages.get(page + 1, ())[:_FIRST_LINES]]
        if any(entry and entry.leaders for entry in entries):
            found.add(page + 1)
    return frozenset(found)


def _rises(entries: Sequence[Entry]) -> bool:
    numbers = [entry.printed for entry in entries]
    steps = list(pairwise(numbers))
    return len(set(numbers)) >= _FEWEST_ENTRIES and sum(a <= b for a, b in steps) >= 0.9 * len(steps)


def _lists(pages: Pages, tables: Iterable[int]) -> list[list[Entry]]:
    """The entries of all printed tables; page numbers that start again begin a new list."""
    lists: list[list[Entry]] = [[]]
    highest = 0
    wrapped = ""
    for page in sorted(tables):
        for line in pages[page]:
            entry = _entry(line.text, wrapped)
            if entry is None:
                wrapped = line.text if len(line.text) <= _LONGEST else ""
                continue
            wrapped = ""
            if 0 < entry.printed < highest:
                lists.append([])
                highest = 0
            highest = max(highest, entry.printed)
            lists[-1].append(entry)
    return [entries for entries in lists if len(entries) >= _FEWEST_ENTRIES]


def _entry(line: str, wrapped: str) -> Entry | None:
    if len(line) > _LONGEST or not (match := _ENTRY.fullmatch(line)):
        return None
    title = (
        match["title"].rstrip(" .\u00b7\u2024\u2026\u30fb_") if match["leaders"].strip() else match["title"]
    )
    if not any(character.isalpha() for character in title):
        return None
    text = match["page"]
    printed = int(text) if text.isdecimal() else -roman(text)
    return Entry(title, printed, wrapped, bool(match["leaders"].strip()))


class _Spots:
    """Where titles stand alone: on one line, or on up to three that follow each other."""

    def __init__(self, pages: Pages) -> None:
        self._of: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for page, lines in pages.items():
            for first in range(len(lines)):
                text = ""
                for last in range(first, min(first + _WRAPPED, len(lines))):
                    text = f"{text} {lines[last].text}".strip()
                    if len(text) > _LONGEST:
                        break
                    for key in set(title_keys(text)):
                        self._of[key].append((page, first, last))

    def of(self, title: str) -> list[tuple[int, int, int]]:
        """(page, first line, last line) of every place, in page order, the shortest first."""
        full, bare = title_keys(title)
        return self._of.get(full) or self._of.get(bare, []) if full else []


def _locate(entries: Sequence[Entry], spots: _Spots, *, last: int) -> list[Located]:
    offsets = {
        sign: _offset([e for e in entries if (e.printed > 0) is sign], spots) for sign in (True, False)
    }
    found = [
        located for entry in entries if (located := _place(entry, spots, offsets[entry.printed > 0], last))
    ]
    certain = [entry for entry in found if entry.first is not None]
    if len(certain) < max(_FEWEST_ENTRIES, _FOUND_SHARE * len(entries)):
        return []
    if sum(is_caption(entry.title) for entry in found) > len(found) / 2:
        return []
    return found


def _offset(entries: Sequence[Entry], spots: _Spots) -> int | None:
    """Place in the file less printed number, as most titles have it."""
    votes: Counter[int] = Counter()
    for entry in entries:
        votes.update({page - abs(entry.printed) for page, _, _ in spots.of(entry.title)})
    if not votes:
        return None
    return max(votes, key=lambda offset: (votes[offset], -abs(offset)))


def _place(entry: Entry, spots: _Spots, offset: int | None, last: int) -> Located | None:
    if offset is None:
        return None
    expected = abs(entry.printed) + offset
    titles = [f"{entry.wrapped} {entry.title}", entry.title] if entry.wrapped else [entry.title]
    if read_label(entry.title) is not None:
        titles.reverse()
    for title in titles:
        near = [spot for spot in spots.of(title) if abs(spot[0] - expected) <= _NEAR]
        if near:
            page, first, end = min(
                near, key=lambda spot: (abs(spot[0] - expected), spot[0], spot[2] - spot[1])
            )
            return Located(title, page, first, end)
    alone = {title: spots.of(title) for title in titles}
    for title, places in alone.items():
        if len(places) == 1:
            return Located(title, *places[0])
    return Located(entry.title, expected, None, None) if 1 <= expected <= last else None
