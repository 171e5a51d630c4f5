"""The printed table of contents: its entries, and the pages of the file to which they lead."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from docagent_rl.documents.contents.captions import is_caption
from docagent_rl.documents.contents.labels import read_label, roman, title_keys
from docagent_rl.documents.contents.pages import Pages

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
_DOTS = r".\u00b7\u2024\u2026\u30fb_"
_LEADERS = re.compile(rf"\s*(?:[{_DOTS}]\s?){{3,}}\s*(?P<page>\d{{1,4}}|[ivxlc]{{1,8}})?\s*$")
_ENTRY = re.compile(
    rf"(?P<title>\S.*?)(?P<leaders>\s*(?:[{_DOTS}]\s?){{2,}}\s*|\s+)(?P<page>\d{{1,4}}|[ivxlc]{{1,8}})"
)


class HeadingBlock(NamedTuple):
    """Lines that make up one heading."""

    page: int
    first: int
    """Index of the first line on the page; -1 if the heading was not found there."""
    last: int
    """Index of the last line."""
    text: str


class ContentsEntry(NamedTuple):
    """A line of a printed table of contents."""

    title: str
    """The title, without leaders and page number."""
    printed: int
    """The page number; negative for a Roman numeral."""
    wrapped: str
    """The preceding line if it has no page number, since the title may begin there."""
    leaders: bool
    """True if dots lead to the number."""


class PrintedContents(NamedTuple):
    """The printed table of contents of a document."""

    entries: tuple[HeadingBlock, ...]
    """Entries in the order of the table; empty if there is no table that can be trusted."""
    pages: frozenset[int]
    """Pages of the file with printed lists (of contents, figures, tables), trusted or not."""


def printed_contents(pages: Pages) -> PrintedContents:
    """Find the printed table of contents and the pages to which its entries lead.

    Printed page numbers are mapped to pages of the file with the headings: of the entries whose
    title is alone on a line of some page, most agree on the offset. Of several lists (contents,
    then figures, then tables), the first one whose titles are found is taken, unless it is a list
    of captions.
    """
    tables = _table_pages(pages)
    spots = _Spots({page: lines for page, lines in pages.items() if page not in tables})
    for entries in _lists(pages, tables):
        located = _locate(entries, spots, last=max(pages))
        if located:
            return PrintedContents(tuple(located), tables)
    return PrintedContents((), tables)


def has_leaders(line: str) -> bool:
    """Return whether a line ends in dot leaders, with or without a page number."""
    return _LEADERS.search(line[-_LONGEST:]) is not None


def _table_pages(pages: Pages) -> frozenset[int]:
    found = set()
    front = max(_FRONT_PAGES, _FRONT_SHARE * len(pages))
    for place, (page, lines) in enumerate(pages.items()):
        entries = [entry for line in lines if (entry := _entry(line))]
        leaders = sum(entry.leaders for entry in entries)
        dotted = leaders >= _FEWEST_LEADERS and leaders >= _LEADER_SHARE * len(lines)
        bare = place < front and len(entries) >= max(_FEWEST_BARE, _BARE_SHARE * len(lines))
        if dotted or (bare and _rises([entry.printed for entry in entries])):
            found.add(page)
    # the last page of a table may have too few lines to be recognised by itself
    for page in sorted(found):
        entries = [_entry(line) for line in pages.get(page + 1, ())[:_FIRST_LINES]]
        if any(entry and entry.leaders for entry in entries):
            found.add(page + 1)
    return frozenset(found)


def _rises(numbers: Sequence[int]) -> bool:
    steps = list(pairwise(numbers))
    return len(set(numbers)) >= _FEWEST_ENTRIES and sum(a <= b for a, b in steps) >= 0.9 * len(
        steps
    )


def _lists(pages: Pages, tables: Iterable[int]) -> list[list[ContentsEntry]]:
    """Return the entries of all printed tables; page numbers that start again begin a new list."""
    lists: list[list[ContentsEntry]] = [[]]
    highest = 0
    wrapped = ""
    for line in (line for page in sorted(tables) for line in pages[page]):
        entry = _entry(line, wrapped)
        if entry is None:
            wrapped = line if len(line) <= _LONGEST else ""
            continue
        wrapped = ""
        if 0 < entry.printed < highest:
            lists.append([])
            highest = 0
        highest = max(highest, entry.printed)
        lists[-1].append(entry)
    return [entries for entries in lists if len(entries) >= _FEWEST_ENTRIES]


def _entry(line: str, wrapped: str = "") -> ContentsEntry | None:
    if len(line) > _LONGEST or not (match := _ENTRY.fullmatch(line)):
        return None
    leaders = bool(match["leaders"].strip())
    title = match["title"].rstrip(" .\u00b7\u2024\u2026\u30fb_") if leaders else match["title"]
    if not any(character.isalpha() for character in title):
        return None
    text = match["page"]
    return ContentsEntry(title, int(text) if text.isdecimal() else -roman(text), wrapped, leaders)


class _Spots:
    """An index of lines, and of up to three lines in a row, by the titles that they may be."""

    def __init__(self, pages: Pages) -> None:
        self._of: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for page, lines in pages.items():
            for first in range(len(lines)):
                text = ""
                for last in range(first, min(first + _WRAPPED, len(lines))):
                    text = f"{text} {lines[last]}".strip()
                    if len(text) > _LONGEST:
                        break
                    for key in set(title_keys(text)):
                        self._of[key].append((page, first, last))

    def of(self, title: str) -> list[tuple[int, int, int]]:
        """Return (page, first line, last line) of every occurrence of a title, in page order."""
        full, bare = title_keys(title)
        return self._of.get(full) or self._of.get(bare, []) if full else []


def _locate(entries: Sequence[ContentsEntry], spots: _Spots, *, last: int) -> list[HeadingBlock]:
    offsets = {
        sign: _offset([entry for entry in entries if (entry.printed > 0) is sign], spots)
        for sign in (True, False)
    }
    found = [
        block
        for entry in entries
        if (block := _place(entry, spots, offsets[entry.printed > 0], last))
    ]
    certain = sum(block.first >= 0 for block in found)
    if certain < max(_FEWEST_ENTRIES, _FOUND_SHARE * len(entries)):
        return []
    return [] if sum(is_caption(block.text) for block in found) > len(found) / 2 else found


def _offset(entries: Sequence[ContentsEntry], spots: _Spots) -> int | None:
    """Return the most frequent difference of a title's page in the file and its printed number."""
    votes: Counter[int] = Counter()
    for entry in entries:
        votes.update({page - abs(entry.printed) for page, _, _ in spots.of(entry.title)})
    return max(votes, key=lambda offset: (votes[offset], -abs(offset)), default=None)


def _place(
    entry: ContentsEntry, spots: _Spots, offset: int | None, last: int
) -> HeadingBlock | None:
    if offset is None:
        return None
    expected = abs(entry.printed) + offset
    titles = [f"{entry.wrapped} {entry.title}", entry.title] if entry.wrapped else [entry.title]
    if read_label(entry.title) is not None:
        titles.reverse()
    for title in titles:
        near = [spot for spot in spots.of(title) if abs(spot[0] - expected) <= _NEAR]
        if near:
            spot = min(near, key=lambda spot: (abs(spot[0] - expected), spot[0], spot[2] - spot[1]))
            return HeadingBlock(*spot, title)
    for title in titles:
        if len(alone := spots.of(title)) == 1:
            return HeadingBlock(*alone[0], title)
    return HeadingBlock(expected, -1, -1, entry.title) if 1 <= expected <= last else None
