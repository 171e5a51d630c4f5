"""What a document contains: a table of contents and a list of figures, from bookmarks or from the text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from docagent_rl.documents.manifest import OutlineEntry

MAX_LEVEL = 3
_FEWEST_ENTRIES = 3
_REPEATED_SHARE = 0.3
_MARKDOWN_SHARE = 0.1
_LONGEST_HEADING = 120
_FEWEST_LETTERS = 3

_DIGITS = re.compile(r"\d+")
_MARKDOWN = re.compile(r"(#{1,6})\s+(\S.*)")
_NUMBERED = re.compile(
    r"(?:(?:chapter|section|part|appendix)\s+(?P<word>[\dA-Z]+(?:\.\d+)*)[.:]?(?:\s+\S.*)?"
    r"|(?P<number>\d{1,2}(?:\.\d{1,2}){0,3})\.?\s+(?P<title>[^\W\d_].*))",
    re.IGNORECASE,
)
_CAPTION = re.compile(r"(?:figure|fig\.?|table|chart|exhibit)\s+(?:\d|[A-Z][.\d-]|[IVX]+\b)", re.IGNORECASE)
_LEADERS = re.compile(r"(?:\.\s?){3,}\s*\d*\s*$")
_FOLIO = re.compile(r"\s\d{1,3}$")
_SENTENCE_END = (".", ",", ";", ":", "?", "!")


@dataclass(frozen=True, slots=True)
class Heading:
    """An entry of a table of contents.

    Args:
        level: 1 at the top, 3 at most.
        title: on one line.
        page: where the section begins, 1-based.
    """

    level: int
    title: str
    page: int


@dataclass(frozen=True, slots=True)
class Caption:
    """A figure, a table or a chart.

    Args:
        text: its caption's first line.
        page: where it is, 1-based.
    """

    text: str
    page: int


def table_of_contents(
    outline: Iterable[OutlineEntry],
    texts: Mapping[int, str],
    *,
    max_entries: int = 200,
    max_title: int = 100,
) -> tuple[Heading, ...]:
    """The headings of a document (MM-Doc-R1, document preparation; the paper names no method).

    The first source that gives at least 3 entries: the PDF's bookmarks; Markdown headings in the page texts;
    lines that carry a section number, after lines have been dropped that more than 30 % of the pages repeat;
    the first line of every page. Font sizes are not looked at: the store keeps none.

    Args:
        outline: the bookmarks; those that lead to no page of `texts` are left out.
        texts: text of the pages by 1-based number.
        max_entries: above it the deepest level is dropped, then the next, then the rest is cut.
        max_title: characters of a title at most.
    """
    lines = page_lines(texts)
    sources = (_bookmarks(outline, texts), _markdown(lines), _numbered(lines), _first_lines(lines))
    found: list[Heading] = []
    for source in sources:
        found = list(source)
        if len(found) >= _FEWEST_ENTRIES:
            break
    entries = [Heading(h.level, h.title[:max_title].rstrip(), h.page) for h in found]
    for level in range(MAX_LEVEL, 1, -1):
        if len(entries) > max_entries:
            entries = [entry for entry in entries if entry.level < level]
    return tuple(entries[:max_entries])


def list_of_figures(
    texts: Mapping[int, str], *, max_entries: int = 100, max_caption: int = 160
) -> tuple[Caption, ...]:
    """Lines that begin with Figure, Fig., Table, Chart or Exhibit and a number, in page order.

    Lines that end in dot leaders are left out: they belong to a printed list of figures and name other pages.
    """
    found = [
        Caption(line[:max_caption].rstrip(), page)
        for page, lines in page_lines(texts).items()
        for line in lines
        if _CAPTION.match(line) and not _LEADERS.search(line[-_LONGEST_HEADING:])
    ]
    return tuple(dict.fromkeys(found))[:max_entries]


def render_contents(entries: Sequence[Heading]) -> str:
    """One line an entry, indented by level: `title … p.7`; the word `none` for no entries."""
    rows = [f"{'  ' * (entry.level - 1)}{entry.title} … p.{entry.page}" for entry in entries]
    return "\n".join(rows) or "none"


def render_figures(captions: Sequence[Caption]) -> str:
    """One line a caption: `Figure 1. ... … p.7`; the word `none` for no captions."""
    return "\n".join(f"{caption.text} … p.{caption.page}" for caption in captions) or "none"


def page_lines(texts: Mapping[int, str]) -> dict[int, list[str]]:
    """The lines of each page, white space collapsed, without running headers and footers.

    A line is one of those when more than 30 % of the pages, and at least 3, hold it; numbers do not tell such
    lines apart. A heading of a short document may well stand on 2: on its contents page, too.
    """
    pages = {
        page: [line for line in (" ".join(raw.split()) for raw in text.splitlines()) if line]
        for page, text in sorted(texts.items())
    }
    seen = Counter(mask for lines in pages.values() for mask in {_masked(line) for line in lines})
    most = max(_REPEATED_SHARE * len(pages), 2)
    return {page: [line for line in lines if seen[_masked(line)] <= most] for page, lines in pages.items()}


def _masked(line: str) -> str:
    return _DIGITS.sub("#", line.casefold())


def _bookmarks(outline: Iterable[OutlineEntry], texts: Mapping[int, str]) -> Iterator[Heading]:
    for entry in outline:
        title = " ".join(entry.title.split())
        if title and entry.page in texts:
            yield Heading(min(entry.level, MAX_LEVEL), title, entry.page)


def _markdown(pages: Mapping[int, list[str]]) -> list[Heading]:
    """Headings of pages that are Markdown; a text layer with shell comments on a few pages is none."""
    found = [
        Heading(min(len(match[1]), MAX_LEVEL), match[2], page)
        for page, lines in pages.items()
        for line in lines
        if (match := _MARKDOWN.fullmatch(line)) and _has_letters(match[2]) and not match[2][0].islower()
    ]
    return found if len({heading.page for heading in found}) >= _MARKDOWN_SHARE * len(pages) else []


def _numbered(pages: Mapping[int, list[str]]) -> Iterator[Heading]:
    for page, lines in pages.items():
        for line in lines:
            level = _numbered_level(line)
            if level:
                yield Heading(level, line, page)


def _numbered_level(line: str) -> int:
    """Level of a numbered heading, 0 for any other line."""
    if len(line) > _LONGEST_HEADING or line.endswith(_SENTENCE_END) or _LEADERS.search(line):
        return 0
    match = _NUMBERED.fullmatch(line)
    if match is None or not _has_letters(line):
        return 0
    # "12 people came" begins with a small letter; "2 Methods 14" is a line of a printed table of contents
    if match["title"] and (match["title"][0].islower() or _FOLIO.search(line)):
        return 0
    return min((match["number"] or match["word"]).count(".") + 1, MAX_LEVEL)


def _first_lines(pages: Mapping[int, list[str]]) -> Iterator[Heading]:
    for page, lines in pages.items():
        title = next((line for line in lines if _has_letters(line)), None)
        if title:
            yield Heading(1, title, page)


def _has_letters(text: str) -> bool:
    return sum(character.isalpha() for character in text) >= _FEWEST_LETTERS
