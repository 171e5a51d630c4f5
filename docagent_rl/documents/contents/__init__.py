"""The contents of a document: a table of contents and a list of figures, from bookmarks or from the text.

Callers use `table_of_contents` and `list_of_figures` alone. Behind them stand `text_headings` and `captions`,
which go by print, numbers and words; another reader of pages (a layout model) takes the place of these two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from docagent_rl.documents.contents.captions import Caption, captions
from docagent_rl.documents.contents.headings import MAX_LEVEL, Heading, has_letters, text_headings
from docagent_rl.documents.contents.pages import Pages, body_lines, settled
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.typography import Line

__all__ = [
    "Caption",
    "Heading",
    "list_of_figures",
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
    max_title: int = 100,
    first_lines: bool = True,
) -> tuple[Heading, ...]:
    """Return the headings of a document (MM-Doc-R1, document preparation; the paper names no method).

    The first source that gives at least 3 entries: the bookmarks; Markdown headings in the page texts; the
    printed table of contents and what its print and numbers tell of the rest (`text_headings`); the first
    line of every page. Lines that pages repeat are dropped first.

    Args:
        outline: the bookmarks; those that lead to no page of `texts` are left out.
        texts: text of the pages by 1-based number.
        typography: lines of the pages with their print, where it is known, be it of a text layer or measured
            by OCR; only pages of `texts` count.
        max_title: characters of a title at most.
        first_lines: take the last resort, too: they find pages, and are no headings.
    """
    found: list[Heading] = []
    for source in _sources(outline, texts, typography, first_lines=first_lines):
        found = source
        if len(found) >= _FEWEST_ENTRIES:
            break
    return tuple(Heading(h.level, h.title[:max_title].rstrip(), h.page) for h in found)


def shortened(entries: Sequence[Heading], max_entries: int) -> tuple[Heading, ...]:
    """Return at most `max_entries`: without the deepest level, then without the next, then the first ones."""
    kept = tuple(entries)
    for level in range(MAX_LEVEL, 1, -1):
        if len(kept) > max_entries:
            kept = tuple(entry for entry in kept if entry.level < level)
    return kept[:max_entries]


def list_of_figures(
    texts: Mapping[int, str],
    *,
    typography: Mapping[int, Sequence[Line]] | None = None,
    max_caption: int = 160,
) -> tuple[Caption, ...]:
    """Return the captions of figures, tables and charts, in page order (see `captions`).

    Args:
        texts: text of the pages by 1-based number.
        typography: lines of the pages with their places, which captions then have, too.
        max_caption: characters of a caption at most.
    """
    return captions(_body(texts, typography), max_caption=max_caption)


def render_contents(entries: Sequence[Heading], *, omitted: int = 0) -> str:
    """Return one line an entry, indented by level: `title … p.7`; the word `none` for no entries.

    A last line counts `omitted` entries that are not shown.
    """
    return _listed((f"{'  ' * (h.level - 1)}{h.title} … p.{h.page}" for h in entries), omitted, "headings")


def render_figures(captions: Sequence[Caption], *, omitted: int = 0) -> str:
    """Return one line a caption: `Figure 1. ... … p.7`; `none` for no captions; `omitted` as for headings."""
    return _listed((f"{caption.text} … p.{caption.page}" for caption in captions), omitted, "captions")


def _listed(rows: Iterable[str], omitted: int, kind: str) -> str:
    text = "\n".join(rows) or "none"
    return f"{text}\n({omitted} more {kind} are not listed)" if omitted else text


def _body(texts: Mapping[int, str], typography: Mapping[int, Sequence[Line]] | None) -> dict[int, list[Line]]:
    typography = typography or {}
    pages = {page: typography.get(page) or _plain_lines(text) for page, text in sorted(texts.items())}
    return body_lines(settled(pages))


def _plain_lines(text: str) -> list[Line]:
    return [Line(line) for raw in text.splitlines() if (line := " ".join(raw.split()))]


def _sources(
    outline: Iterable[OutlineEntry],
    texts: Mapping[int, str],
    typography: Mapping[int, Sequence[Line]] | None,
    *,
    first_lines: bool,
) -> Iterator[list[Heading]]:
    """Yield headings from the best source to the last resort, looked at when earlier ones give little."""
    yield [
        Heading(min(entry.level, MAX_LEVEL), title, entry.page)
        for entry in outline
        if (title := " ".join(entry.title.split())) and entry.page is not None and entry.page in texts
    ]
    pages = _body(texts, typography)
    yield _markdown(pages)
    yield text_headings(pages)
    if first_lines:
        firsts = (
            (page, next((line.text for line in lines if has_letters(line.text)), None))
            for page, lines in pages.items()
        )
        yield [Heading(1, title, page) for page, title in firsts if title]


def _markdown(pages: Pages) -> list[Heading]:
    """Return headings of pages that are Markdown; a text layer with shell comments on a few pages is none."""
    found = [
        Heading(min(len(match[1]), MAX_LEVEL), match[2], page)
        for page, lines in pages.items()
        for line in lines
        if (match := _MARKDOWN.fullmatch(line.text)) and has_letters(match[2]) and not match[2][0].islower()
    ]
    return found if len({heading.page for heading in found}) >= _MARKDOWN_SHARE * len(pages) else []
