"""Headings in the text of a document without bookmarks, by their print and their numbers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from docagent_rl.documents.contents.captions import is_caption
from docagent_rl.documents.contents.numbering import Label, longest_sequence, read_label
from docagent_rl.documents.contents.pages import (
    LARGER,
    Block,
    Pages,
    Print,
    body_print,
    body_size,
    print_of,
)
from docagent_rl.documents.contents.printed import has_leaders, printed_contents
from docagent_rl.documents.typography import MEASURED, Line

MAX_LEVEL = 3
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


@dataclass(frozen=True, slots=True)
class Heading:
    """An entry of a table of contents."""

    level: int
    """1 at the top, 3 at most."""
    title: str
    """On one line."""
    page: int
    """Where the section begins, 1-based."""


def text_headings(pages: Pages) -> list[Heading]:
    """Return the headings of a document, in reading order.

    What the printed table of contents names; lines that are set as such headings are, or, without a table, in
    large print; where the print is not known, lines whose section numbers continue one another.

    Args:
        pages: lines without running headers.
    """
    printed = printed_contents(pages)
    body = {page: lines for page, lines in pages.items() if page not in printed.pages}
    size = body_size(body)
    more = _styled(body, size, printed.entries) if size else []
    if not printed.entries or not size:
        styled = {(block.page, block.first) for block in more}
        usual = body_print(body)
        more += [
            block
            for block in _numbered(body, printed.entries)
            if (block.page, block.first) not in styled
            and (not size or block.print.font == MEASURED or _stands_out(block.print, usual))
        ]
    blocks = sorted([*printed.entries, *more], key=lambda block: (block.page, block.first))
    return _levelled([block for block in blocks if has_letters(block.text)])


def has_letters(text: str) -> bool:
    """Whether a text has the letters of a title: three, or one of a script that needs fewer."""
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
        and (block.print.font != MEASURED or _is_title(block.text))
    ]


def _is_title(text: str) -> bool:
    """Whether a line in large print may be a title by its characters."""
    return text[0].isalnum() and not text.endswith(_SENTENCE_END) and not _SIGNS.intersection(text)


def _stands_out(style: Print, usual: Print) -> bool:
    return style.size >= usual.size and (style.size >= LARGER * usual.size or style.bold > usual.bold)


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
    """Whether a heading goes on in the line that follows."""
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
        taken = {(block.page, index) for block in listed for index in range(block.first, block.last + 1)}
        known = {label.number for block in listed if (label := read_label(block.text))}
        return [
            block
            for block, number in chosen
            if number[:-1] in known and number not in known and (block.page, block.first) not in taken
        ]
    blocks = [block for block, _ in chosen]
    if not blocks or list(pages).index(blocks[0].page) > _LATEST_START * len(pages):
        return []
    return [] if len({block.page for block in blocks}) < _SPREAD * len(blocks) else blocks


def _heading_label(line: str) -> Label | None:
    """Return the section number of a line that may be a heading; none of a sentence or a printed table."""
    if len(line) > _LONGEST_NUMBERED or line.endswith(_SENTENCE_END):
        return None
    if has_leaders(line) or not has_letters(line):
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
