"""What a document contains: a table of contents and a list of figures, from bookmarks or from the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from docagent_rl.documents.captions import Caption, captions
from docagent_rl.documents.headings import MAX_LEVEL, Heading, has_letters, text_headings
from docagent_rl.documents.letter_sizes import settled
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.page_lines import Pages, body_lines
from docagent_rl.documents.printed_contents import printed_contents
from docagent_rl.documents.typography import Line

__all__ = [
    "Caption",
    "Heading",
    "list_of_figures",
    "page_lines",
    "render_contents",
    "render_figures",
    "shortened",
    "table_of_contents",
]

_FEWEST_ENTRIES = 3
_MARKDOWN_SHARE = 0.1
_MARKDOWN = re.compile(r"(#{1,6})\s+(\S.*)")


def table_of_contents(
    outline: Iterable[OutlineEntry],
    texts: Mapping[int, str],
    *,
    typography: Mapping[int, Sequence[Line]] | None = None,
    max_entries: int | None = None,
    max_title: int = 100,
    first_lines: bool = True,
) -> tuple[Heading, ...]:
    """The headings of a document (MM-Doc-R1, document preparation; the paper names no method).

    The first source that gives at least 3 entries: the bookmarks; Markdown headings in the page texts; the
    printed table of contents and what its print and numbers tell of the rest (`text_headings`); the first
    line of every page. Lines that pages repeat are dropped first.

    Args:
        outline: the bookmarks; those that lead to no page of `texts` are left out.
        texts: text of the pages by 1-based number.
        typography: lines of the pages with their print, where it is known, be it of a text layer or measured
            by OCR; only pages of `texts` count.
        max_entries: see `shortened`; None for all.
        max_title: characters of a title at most.
        first_lines: take the last resort, too: they find pages, and are no headings.
    """
    found: list[Heading] = []
    for source in _sources(outline, texts, typography or {}, first_lines=first_lines):
        found = list(source)
        if len(found) >= _FEWEST_ENTRIES:
            break
    entries = tuple(Heading(h.level, h.title[:max_title].rstrip(), h.page) for h in found)
    return entries if max_entries is None else shortened(entries, max_entries)


def shortened(entries: Sequence[Heading], max_entries: int) -> tuple[Heading, ...]:
    """At most `max_entries`: above it the deepest level is dropped, then the next, then the rest is cut."""
    kept = tuple(entries)
    for level in range(MAX_LEVEL, 1, -1):
        if len(kept) > max_entries:
            kept = tuple(entry for entry in kept if entry.level < level)
    return kept[:max_entries]


def list_of_figures(
    texts: Mapping[int, str],
    *,
    typography: Mapping[int, Sequence[Line]] | None = None,
    max_entries: int | None = None,
    max_caption: int = 160,
) -> tuple[Caption, ...]:
    """The captions of figures, tables and charts, in page order (see `docagent_rl.documents.captions`).

    Args:
        texts: text of the pages by 1-based number.
        typography: lines of the pages with their places, which captions then have, too.
        max_entries: what is above it is cut; None for all.
        max_caption: characters of a caption at most.
    """
    pages = body_lines(_pages(texts, typography or {}))
    return captions(pages, max_caption=max_caption)[:max_entries]


def render_contents(entries: Sequence[Heading], *, omitted: int = 0) -> str:
    """One line an entry, indented by level: `title … p.7`; the word `none` for no entries.

    `omitted` entries that are not shown are told of in a last line.
    """
    rows = [f"{'  ' * (entry.level - 1)}{entry.title} … p.{entry.page}" for entry in entries]
    return _told("\n".join(rows) or "none", omitted, "headings")


def render_figures(captions: Sequence[Caption], *, omitted: int = 0) -> str:
    """One line a caption: `Figure 1. ... … p.7`; `none` for no captions; `omitted` as for headings."""
    return _told(
        "\n".join(f"{caption.text} … p.{caption.page}" for caption in captions) or "none", omitted, "captions"
    )


def page_lines(texts: Mapping[int, str]) -> dict[int, list[str]]:
    """The lines of each page, white space collapsed, without running headers (see `body_lines`)."""
    return {page: [line.text for line in lines] for page, lines in body_lines(_pages(texts, {})).items()}


def _told(text: str, omitted: int, what: str) -> str:
    return f"{text}\n({omitted} more {what} are not listed)" if omitted else text


def _pages(texts: Mapping[int, str], typography: Mapping[int, Sequence[Line]]) -> Pages:
    return settled(
        {
            page: typography.get(page) or [Line(line) for line in _collapsed(text)]
            for page, text in sorted(texts.items())
        }
    )


def _collapsed(text: str) -> Iterator[str]:
    return (line for line in (" ".join(raw.split()) for raw in text.splitlines()) if line)


def _sources(
    outline: Iterable[OutlineEntry],
    texts: Mapping[int, str],
    typography: Mapping[int, Sequence[Line]],
    *,
    first_lines: bool,
) -> Iterator[Iterable[Heading]]:
    """From the best source to the last resort; later ones are looked at only when earlier ones give
    little.
    """
    yield _bookmarks(outline, texts)
    pages = body_lines(_pages(texts, typography))
    yield _markdown(pages)
    yield text_headings(pages, printed_contents(pages))
    if first_lines:
        yield _first_lines(pages)


def _bookmarks(outline: Iterable[OutlineEntry], texts: Mapping[int, str]) -> Iterator[Heading]:
    for entry in outline:
        title = " ".join(entry.title.split())
        if title and entry.page is not None and entry.page in texts:
            yield Heading(min(entry.level, MAX_LEVEL), title, entry.page)


def _markdown(pages: Pages) -> list[Heading]:
    """Headings of pages that are Markdown; a text layer with shell comments on a few pages is none."""
    found = [
        Heading(min(len(match[1]), MAX_LEVEL), match[2], page)
        for page, lines in pages.items()
        for line in lines
        if (match := _MARKDOWN.fullmatch(line.text)) and has_letters(match[2]) and not match[2][0].islower()
    ]
    return found if len({heading.page for heading in found}) >= _MARKDOWN_SHARE * len(pages) else []


def _first_lines(pages: Pages) -> Iterator[Heading]:
    for page, lines in pages.items():
        title = next((line.text for line in lines if has_letters(line.text)), None)
        if title:
            yield Heading(1, title, page)
