"""The title, table of contents and list of figures of a document, from its bookmarks or text."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from docagent_rl.documents.contents.captions import Caption, captions
from docagent_rl.documents.contents.labels import LineLabel, Number, longest_sequence, read_label
from docagent_rl.documents.contents.pages import Pages, body_lines
from docagent_rl.documents.contents.printed import HeadingBlock, has_leaders, printed_contents
from docagent_rl.documents.references import OutlineEntry

MAX_LEVEL = 3
FEWEST_ENTRIES = 3
"""Minimum number of bookmarks or headings for a table of contents."""
_MARKDOWN_SHARE = 0.1
_MARKDOWN = re.compile(r"(#{1,6})\s+(\S.*)")
_LONGEST_NUMBERED = 120
_LONGEST_TITLE = 200
_FEWEST_LETTERS = 3
_LATEST_START = 1 / 3
_SPREAD = 1 / 4
_NUMBERED_SHARE = 0.5
_FEWEST_WITH_FOOT = 8
_FOOT_LINES = 3
_FOOT_SHARE = 0.2
_SENTENCE_END = (".", ",", ";", ":", "!")
_REFERENCES = re.compile(
    r"(?i)(?:[\dIVX]+\.?\s+)?(?:references(?: and notes)?|bibliography|(?:literature|works) cited"
    r"|literatur(?:verzeichnis)?|bibliographie|références|referencias|referências)"
)
"""The heading of a list of references; numbers behind it are not section numbers."""
_FOLIO = re.compile(r"\s\d{1,3}$")
_LONGEST_CAPITALS = 80
_SIGNS = frozenset("<>=$[]{}#\\|~^_*@")
_MANUAL = frozenset({"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "FILES", "SEE ALSO"})
_FEWEST_OF_MANUAL = 2
_PLACEHOLDER = re.compile(
    r"(?i)(?:untitled|no title|title|(?:new )?document|presentation|slide|page|book|draft"
    r"|layout)[\s\d]*"
    r"|microsoft \w+.*|\(?anonymous\)?"
    r"|.*\.(?:docx?|dvi|tex|pdf|pptx?|xlsx?|indd|qxd|e?ps|html?|md|odt|rtf|txt)"
)
"""Titles that programs write if the author gave none."""


@dataclass(frozen=True, slots=True)
class Heading:
    """An entry of a table of contents."""

    level: int
    """Level from 1 at the top to 3."""
    title: str
    """The title on one line."""
    page: int
    """The first page of the section, 1-based."""


def table_of_contents(
    outline: Iterable[OutlineEntry],
    texts: Mapping[int, str],
    *,
    max_title: int = 100,
    first_lines: bool = True,
) -> tuple[Heading, ...]:
    """Return the headings of a document (MM-Doc-R1, document preparation; the paper names no
    method).

    They come from the first of these sources that yields at least 3 entries: the bookmarks, or the
    headings found by the layout (`typography`) when the document was ingested; the lines in
    capitals of a manual page; Markdown headings in the page texts; the printed table of contents
    and lines with section numbers; the first line of every page. Lines that are repeated on many
    pages are dropped first.

    Args:
        outline: the bookmarks; those that lead to no page of `texts` are left out.
        texts: text of the pages by 1-based number.
        max_title: maximum length of a title in characters.
        first_lines: use first lines, too, which help to find pages but are not headings.
    """
    found: list[Heading] = []
    for source in _sources(outline, texts, first_lines=first_lines):
        found = source
        if len(found) >= FEWEST_ENTRIES:
            break
    return tuple(Heading(h.level, h.title[:max_title].rstrip(), h.page) for h in found)


def shortened(entries: Sequence[Heading], max_entries: int) -> tuple[Heading, ...]:
    """Return at most `max_entries`, dropping the deepest levels first and then the last entries."""
    kept = tuple(entries)
    for level in range(MAX_LEVEL, 1, -1):
        if len(kept) > max_entries:
            kept = tuple(entry for entry in kept if entry.level < level)
    return kept[:max_entries]


def list_of_figures(texts: Mapping[int, str], *, max_caption: int = 160) -> tuple[Caption, ...]:
    """Return the captions of figures, tables and charts in page order (see `captions`).

    `texts` maps 1-based page numbers to texts.
    """
    return captions(_body(texts), max_caption=max_caption)


def document_title(stated: str, texts: Mapping[int, str]) -> str:
    """Return the title of a document on one line; empty if there is none.

    It is `stated`, the title in the file's metadata, unless that is a placeholder or a file name;
    else the Markdown heading at the start of the first page with text.
    """
    title = " ".join(stated.split())[:_LONGEST_TITLE]
    if _has_letters(title) and not _PLACEHOLDER.fullmatch(title):
        return title
    first = next((text for _, text in sorted(texts.items()) if text.strip()), "")
    markdown = re.match(r"\s*# +(\S.*)", first)
    return markdown[1].strip()[:_LONGEST_TITLE] if markdown else ""


def render_contents(entries: Sequence[Heading], *, omitted: int = 0) -> str:
    """Return one line per entry, indented by level: `title … p.7`; or the word `none`.

    If entries are `omitted`, a last line says how many.
    """
    return _listed(
        (f"{'  ' * (h.level - 1)}{h.title} … p.{h.page}" for h in entries), omitted, "headings"
    )


def render_figures(captions: Sequence[Caption], *, omitted: int = 0) -> str:
    """Return one line per caption, `Figure 1. ... … p.7`, or `none`.

    If captions are `omitted`, a last line says how many.
    """
    return _listed(
        (f"{caption.text} … p.{caption.page}" for caption in captions), omitted, "captions"
    )


def _listed(rows: Iterable[str], omitted: int, kind: str) -> str:
    text = "\n".join(rows) or "none"
    return f"{text}\n({omitted} more {kind} are not listed)" if omitted else text


def _body(texts: Mapping[int, str]) -> dict[int, list[str]]:
    lines = {}
    for page, text in sorted(texts.items()):
        single_spaced = (" ".join(line.split()) for line in text.splitlines())
        lines[page] = [line for line in single_spaced if line]
    return body_lines(lines)


def _sources(
    outline: Iterable[OutlineEntry], texts: Mapping[int, str], *, first_lines: bool
) -> Iterator[list[Heading]]:
    """Yield the headings of each source, the best one first; sources are read lazily."""
    yield [
        Heading(min(entry.level, MAX_LEVEL), title, entry.page)
        for entry in outline
        if (title := " ".join(entry.title.split()))
        and entry.page is not None
        and entry.page in texts
    ]
    pages = _body(texts)
    yield _capitals(pages)  # before Markdown: comments of programs in a manual page look like it
    yield _markdown(pages)
    yield _text_headings(pages)
    if first_lines:
        firsts = ((page, next(filter(_has_letters, lines), None)) for page, lines in pages.items())
        yield [Heading(1, title, page) for page, title in firsts if title]


def _markdown(pages: Pages) -> list[Heading]:
    """Return the headings of Markdown pages, or nothing if few pages have any.

    The latter may be a text layer with comments of shell scripts.
    """
    found = [
        Heading(min(len(match[1]), MAX_LEVEL), match[2], page)
        for page, lines in pages.items()
        for line in lines
        if (match := _MARKDOWN.fullmatch(line))
        and _has_letters(match[2])
        and not match[2][0].islower()
    ]
    return found if len({heading.page for heading in found}) >= _MARKDOWN_SHARE * len(pages) else []


def _text_headings(pages: Pages) -> list[Heading]:
    """Return the entries of the printed contents and lines with section numbers, in order."""
    printed = printed_contents(pages)
    body = {page: lines for page, lines in pages.items() if page not in printed.pages}
    blocks = [*printed.entries, *_numbered(body, printed.entries)]
    blocks.sort(key=lambda block: (block.page, block.first))
    return _levelled([block for block in blocks if _has_letters(block.text)])


def _capitals(pages: Pages) -> list[Heading]:
    """Return lines in capitals if some of them are sections of manual pages: NAME, SYNOPSIS."""
    found = [
        Heading(1, line, page)
        for page, lines in pages.items()
        for line in lines
        if line.isupper()
        and line[0].isalpha()
        and len(line) <= _LONGEST_CAPITALS
        and _has_letters(line)
        if not line.endswith(_SENTENCE_END) and not _SIGNS.intersection(line)
    ]
    return found if len({each.title for each in found} & _MANUAL) >= _FEWEST_OF_MANUAL else []


def _has_letters(text: str) -> bool:
    """Return whether a text has enough letters for a title: three, or one of an Asian script."""
    letters = [character for character in text if character.isalpha()]
    return len(letters) >= _FEWEST_LETTERS or any(ord(letter) >= 0x3040 for letter in letters)


def _numbered(pages: Pages, listed: Sequence[HeadingBlock]) -> list[HeadingBlock]:
    """Return lines whose section numbers continue one another.

    If there is a printed table of contents, only subsections of its sections are returned. If there
    is none, nothing is returned if the lines begin late in the document (steps of a list) or are
    crowded on few pages (an outline without page numbers).
    """
    found = _labelled(pages)
    chosen = [found[position] for position in longest_sequence([number for _, number in found])]
    if listed:
        return _subsections(chosen, listed)
    blocks = [block for block, _ in chosen]
    if all(_is_at_foot(block, pages) for block in blocks):
        return []
    if list(pages).index(blocks[0].page) > _LATEST_START * len(pages):
        return []
    return [] if len({block.page for block in blocks}) < _SPREAD * len(blocks) else blocks


def _labelled(pages: Pages) -> list[tuple[HeadingBlock, Number]]:
    """Return the lines that begin with a section number, with that number.

    Behind the heading of the references, only lines such as "Appendix A" count.
    """
    lines = []
    for page, body in pages.items():
        lines += [HeadingBlock(page, index, index, line) for index, line in enumerate(body)]
    references = [at for at, line in enumerate(lines) if _REFERENCES.fullmatch(line.text)]
    last = references[-1] if references else len(lines)
    found = []
    for at, line in enumerate(lines):
        label = _heading_label(line.text)
        if label is not None and (at <= last or label.named):
            found.append((line, label.number))
    return found


def _subsections(
    numbered: Iterable[tuple[HeadingBlock, Number]], listed: Iterable[HeadingBlock]
) -> list[HeadingBlock]:
    """Return the numbered lines that are subsections of listed headings, and not listed."""
    places: set[tuple[int, int]] = set()
    known: set[Number] = set()
    for block in listed:
        places |= {(block.page, index) for index in range(block.first, block.last + 1)}
        label = read_label(block.text)
        if label is not None:
            known.add(label.number)
    return [
        block
        for block, number in numbered
        if number[:-1] in known and number not in known and (block.page, block.first) not in places
    ]


def _is_at_foot(block: HeadingBlock, pages: Pages) -> bool:
    """Return whether a line is among the last of its page, like a footnote and unlike a heading."""
    lines = len(pages[block.page])
    return lines >= _FEWEST_WITH_FOOT and block.first >= lines - max(
        _FOOT_LINES, _FOOT_SHARE * lines
    )


def _heading_label(line: str) -> LineLabel | None:
    """Return the section number of a line that may be a heading.

    Return None for sentences and for lines of a printed table of contents.
    """
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


def _levelled(blocks: Sequence[HeadingBlock]) -> list[Heading]:
    """Return headings with levels.

    If at least half of the headings have numbers, these give the levels; otherwise numbered
    headings are at the top. Headings without number are below the top if others have numbers.
    """
    labels = [read_label(block.text) for block in blocks]
    by_number = sum(label is not None for label in labels) >= _NUMBERED_SHARE * len(blocks)
    headings = []
    for label, block in zip(labels, blocks, strict=True):
        if label and by_number:
            level = len(label.number)
        elif label or not any(labels):
            level = 1
        else:
            level = 2
        headings.append(Heading(min(level, MAX_LEVEL), block.text, block.page))
    return headings
