"""The contents of a document: a table of contents and a list of figures, from bookmarks or from the text.

Callers use `table_of_contents` and `list_of_figures` alone. Behind them stand `text_headings` and `captions`,
which go by print, numbers and words; another reader of pages (a layout model) takes the place of these two.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from docagent_rl.documents.contents.capitals import capital_headings
from docagent_rl.documents.contents.labels import (
    Caption,
    Label,
    captions,
    is_caption,
    longest_sequence,
    read_label,
)
from docagent_rl.documents.contents.pages import (
    LARGER,
    Block,
    Pages,
    Print,
    body_lines,
    body_print,
    print_of,
    settled,
)
from docagent_rl.documents.contents.printed import has_leaders, printed_contents
from docagent_rl.documents.contents.titles import document_title
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.typography import MEASURED, Line

__all__ = [
    "Caption",
    "Heading",
    "document_title",
    "list_of_figures",
    "render_contents",
    "render_figures",
    "shortened",
    "table_of_contents",
]

MAX_LEVEL = 3
_FEWEST_ENTRIES = 3
_MARKDOWN_SHARE = 0.1
_MARKDOWN = re.compile(r"(#{1,6})\s+(\S.*)")
_LONGEST_NUMBERED = 120
_LONGEST_STYLED = 200
_FEWEST_LETTERS = 3
_LARGE_SHARE = 0.15
_OFTEN = 3
_LATEST_START = 1 / 3
_SPREAD = 1 / 4
_NUMBERED_SHARE = 0.5
_LINE_SPACING = 1.5
_SIGNS = frozenset("<>=$[]{}#\\|~^_*@")
_SENTENCE_END = (".", ",", ";", ":", "!")
_FOLIO = re.compile(r"\s\d{1,3}$")
_NUMBERS = re.compile(r"(?<!\S)[-+(]?[$€£]?\d[\d.,]*[%)]?(?!\S)")
_FEWEST_NUMBERS, _NUMBERS_SHARE = 2, 0.2


@dataclass(frozen=True, slots=True)
class Heading:
    """An entry of a table of contents."""

    level: int
    """1 at the top, 3 at most."""
    title: str
    """On one line."""
    page: int
    """The first page of the section, 1-based."""


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
    printed table of contents and headings by its print and numbers (`text_headings`); the first line of
    every page. Lines that pages repeat are dropped first.

    Args:
        outline: the bookmarks; those that lead to no page of `texts` are left out.
        texts: text of the pages by 1-based number.
        typography: lines of the pages with their print, where it is known, be it of a text layer or measured
            by OCR; only pages of `texts` count.
        max_title: characters of a title at most.
        first_lines: use first lines, too: they find pages, and are no headings.
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

    `texts` goes by 1-based page number; captions have places where `typography` gives those of lines.
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
    pages = {
        page: typography.get(page)
        or [Line(line) for raw in text.splitlines() if (line := " ".join(raw.split()))]
        for page, text in sorted(texts.items())
    }
    return body_lines(settled(pages))


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
            (page, next((line.text for line in lines if _has_letters(line.text)), None))
            for page, lines in pages.items()
        )
        yield [Heading(1, title, page) for page, title in firsts if title]


def _markdown(pages: Pages) -> list[Heading]:
    """Return headings of pages that are Markdown; a text layer with shell comments on a few pages is none."""
    found = [
        Heading(min(len(match[1]), MAX_LEVEL), match[2], page)
        for page, lines in pages.items()
        for line in lines
        if (match := _MARKDOWN.fullmatch(line.text)) and _has_letters(match[2]) and not match[2][0].islower()
    ]
    return found if len({heading.page for heading in found}) >= _MARKDOWN_SHARE * len(pages) else []


def text_headings(pages: Pages) -> list[Heading]:
    """Return the headings of a document, in reading order.

    Those that the printed table of contents names; lines that are set as such headings are, or, without a
    table, in large print, and lines whose section numbers continue one another and whose print stands out;
    where print tells nothing, all lines with such numbers. Where these are few, lines in capitals.
    `pages` have no running headers.
    """
    printed = printed_contents(pages)
    body = {page: lines for page, lines in pages.items() if page not in printed.pages}
    usual, size = body_print(body)
    more = _styled(body, size, printed.entries) if size else []
    if not printed.entries or not size:
        numbered = _numbered(body, printed.entries)
        standing = [block for block in numbered if not size or _stands_out(block.print, usual)]
        styled = {(block.page, block.first) for block in more}
        found = standing or ([] if more else capital_headings(body) or numbered)
        more += [block for block in found if (block.page, block.first) not in styled]
    if len(printed.entries) + len(more) < _FEWEST_ENTRIES:
        more = capital_headings(body) or more
    blocks = sorted([*printed.entries, *more], key=lambda block: (block.page, block.first))
    return _levelled([block for block in blocks if _has_letters(block.text)])


def _stands_out(print: Print, usual: Print) -> bool:
    """Return whether the print of a numbered line is another one than that of most letters."""
    if print.font == MEASURED or print.size >= LARGER * usual.size:
        return True
    return print.size >= usual.size and (print.font != usual.font or print.bold > usual.bold)


def _has_letters(text: str) -> bool:
    """Return whether a text has the letters of a title: three, or one of a script that needs fewer."""
    letters = [character for character in text if character.isalpha()]
    return len(letters) >= _FEWEST_LETTERS or any(ord(letter) >= 0x3040 for letter in letters)


def _styled(pages: Pages, body: float, listed: Sequence[Block]) -> list[Block]:
    """Return lines that stand out by their print and are not in the printed contents.

    With a printed table only print that it does not know counts, in a font of its headings and smaller than
    these: the levels that it leaves out. Without one, all large print on several pages. Sizes that
    were measured in a picture may be wrong: then lines of programs and tables do not count.
    """
    blocks = [block for page, lines in pages.items() for block in _blocks(page, lines, body)]
    often = Counter(block.text for block in blocks)
    styles: dict[Print, list[Block]] = defaultdict(list)
    for block in blocks:
        styles[block.print].append(block)
    letters = sum(len(line.text) for lines in pages.values() for line in lines)
    counts = Counter(block.print for block in listed if block.first >= 0)
    known = [style for style, count in counts.items() if count > 1]
    smallest = min((style.size for style in known), default=0.0)
    fonts = {style.font for style in known}
    chosen = {
        style
        for style, found in styles.items()
        if sum(len(block.text) for block in found) <= _LARGE_SHARE * letters
        and len({block.page for block in found}) > 1
        and (not listed or (style.size < smallest and style.font in fonts))
    }
    return [
        block
        for block in blocks
        if block.print in chosen
        and often[block.text] < _OFTEN
        and not is_caption(block.text)
        and (
            block.print.font != MEASURED
            or (
                block.text[0].isalnum()
                and not block.text.endswith(_SENTENCE_END)
                and not _SIGNS.intersection(block.text)
                and not _is_of_table(pages[block.page], block)
            )
        )
    ]


def _is_of_table(lines: Sequence[Line], block: Block) -> bool:
    """Return whether a heading read in a picture is a row of a table, or its head: rows of numbers follow."""
    texts = [block.text, *(line.text for line in lines[block.last + 1 : block.last + 2])]
    return any(
        len(numbers := _NUMBERS.findall(text)) >= _FEWEST_NUMBERS
        and len(numbers) >= _NUMBERS_SHARE * len(text.split())
        for text in texts
    )


def _blocks(page: int, lines: Sequence[Line], body: float) -> Iterator[Block]:
    """Yield lines in large print; wrapped ones joined."""
    index = 0
    while index < len(lines):
        first = index
        index += 1
        if print_of(lines[first]).size < LARGER * body:
            continue
        while index < len(lines) and _continues(lines[index - 1], lines[index]):
            index += 1
        text = " ".join(line.text for line in lines[first:index])
        if len(text) <= _LONGEST_STYLED and not has_leaders(text):
            yield Block(page, first, index - 1, text, print_of(lines[first]))


def _continues(line: Line, following: Line) -> bool:
    """Return whether a heading goes on in the line that follows."""
    one, two = line.style, following.style
    if one is None or two is None or print_of(line) != print_of(following):
        return False
    gap = one.baseline - two.baseline
    return 0 < gap <= _LINE_SPACING * one.size and read_label(following.text) is None


def _numbered(pages: Pages, listed: Sequence[Block]) -> list[Block]:
    """Return lines whose section numbers continue one another.

    With a printed table only subsections of sections that it lists. Without one, none if they
    begin late in the document (steps of a list) or crowd on few pages (an outline without page numbers).
    """
    found = [
        (Block(page, index, index, line.text, print_of(line)), label.number)
        for page, lines in pages.items()
        for index, line in enumerate(lines)
        if (label := _heading_label(line.text))
    ]
    chosen = [found[position] for position in longest_sequence([number for _, number in found])]
    if listed:
        places = {(block.page, index) for block in listed for index in range(block.first, block.last + 1)}
        known = {label.number for block in listed if (label := read_label(block.text))}
        return [
            block
            for block, number in chosen
            if number[:-1] in known and number not in known and (block.page, block.first) not in places
        ]
    blocks = [block for block, _ in chosen]
    if not blocks or list(pages).index(blocks[0].page) > _LATEST_START * len(pages):
        return []
    return [] if len({block.page for block in blocks}) < _SPREAD * len(blocks) else blocks


def _heading_label(line: str) -> Label | None:
    """Return the section number of a line that may be a heading; none of a sentence or a printed table."""
    if len(line) > _LONGEST_NUMBERED or line.endswith(_SENTENCE_END):
        return None
    if has_leaders(line) or not _has_letters(line):
        return None
    label = read_label(line)
    if label is None or (label.title[:1].islower() and not (label.named and label.marked)):
        return None
    # "2 Methods 14" is a line of a printed table of contents
    if not label.title[:1].isalpha() and label.title and not label.named:
        return None
    return None if label.title and _FOLIO.search(line) else label


def _levelled(blocks: Sequence[Block]) -> list[Heading]:
    """Return headings with levels by number where most have one, else by size."""
    labels = [read_label(block.text) for block in blocks]
    by_number = sum(label is not None for label in labels) >= _NUMBERED_SHARE * len(blocks)
    sizes = sorted({block.print for block in blocks if block.print.size}, reverse=True)
    rank = {style: place for place, style in enumerate(sizes, start=1)}
    numbered = any(labels)
    found: list[Heading] = []
    for block, label in zip(blocks, labels, strict=True):
        if label and by_number:
            level = len(label.number)
        elif block.print.size:
            level = rank[block.print]
        else:
            level = 1 if label or not numbered else 2
        found.append(Heading(min(level, MAX_LEVEL), block.text, block.page))
    return found
