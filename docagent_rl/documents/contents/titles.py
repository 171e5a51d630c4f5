"""The title of a document: as its file states it, or as its first page prints it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile

from docagent_rl.documents.contents.labels import is_caption, read_label
from docagent_rl.documents.contents.pages import LARGER, Pages, body_print, print_of, settled
from docagent_rl.documents.typography import Line

_LONGEST = 200
_FEWEST_LETTERS = 3
_TITLE_PAGES = 2
_FRONT = 3
_PLACEHOLDER = re.compile(
    r"(?i)(?:untitled|no title|title|(?:new )?document|presentation|slide|page|book|draft|layout)[\s\d]*"
    r"|microsoft \w+.*|\(?anonymous\)?"
    r"|.*\.(?:docx?|dvi|tex|pdf|pptx?|xlsx?|indd|qxd|e?ps|html?|md|odt|rtf|txt)"
)
"""What programs write where nobody stated a title."""


def document_title(stated: str, texts: Mapping[int, str], typography: Mapping[int, Sequence[Line]]) -> str:
    """Return the title of a document on one line; empty where there is none.

    `stated` is that of the file, taken unless it is a placeholder or the name of a file. Else it is the
    heading of Markdown that the first page begins with, or the largest print there, of one of the first two
    pages with letters, if it is larger than the body and no page behind the third has it.
    """
    title = " ".join(stated.split())[:_LONGEST]
    if _has_letters(title) and not _PLACEHOLDER.fullmatch(title):
        return title
    first = next((text for _, text in sorted(texts.items()) if text.strip()), "")
    if markdown := re.match(r"\s*# +(\S.*)", first):
        return markdown[1].strip()[:_LONGEST]
    pages = settled({number: typography.get(number, ()) for number in sorted(texts)})
    _, body = body_print(pages)
    front = [number for number, lines in pages.items() if any(map(_has_letters, _texts(lines)))]
    return next((title for number in front[:_TITLE_PAGES] if (title := _printed(pages, number, body))), "")


def _printed(pages: Pages, number: int, body: float) -> str:
    """Return the first lines in the largest print of a page, if they may be a title."""
    lines = pages[number]
    largest = max(print_of(line).size for line in lines if _has_letters(line.text))
    if not body or largest < LARGER * body or _is_used(list(pages.values())[_FRONT:], largest):
        return ""
    first = next(place for place, line in enumerate(lines) if print_of(line).size == largest)
    text = " ".join(_texts(takewhile(lambda line: print_of(line).size == largest, lines[first:])))
    fits = _has_letters(text) and len(text) <= _LONGEST and not is_caption(text) and read_label(text) is None
    return text if fits else ""


def _is_used(pages: Iterable[Sequence[Line]], size: float) -> bool:
    """Return whether some page has print of a size, or of a larger one: that of chapters, then."""
    return any(print_of(line).size >= size for lines in pages for line in lines)


def _texts(lines: Sequence[Line] | takewhile[Line]) -> list[str]:
    return [line.text for line in lines]


def _has_letters(text: str) -> bool:
    letters = [character for character in text if character.isalpha()]
    return len(letters) >= _FEWEST_LETTERS or any(ord(letter) >= 0x3040 for letter in letters)
