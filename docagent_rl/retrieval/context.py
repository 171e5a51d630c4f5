"""The context of passages: the title of their document, and the headings that they stand under.

Indexes of text hold these words with the passage's own; the text that agents read stays as it is.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import cachetools

from docagent_rl.documents import Document, DocumentStore, PageContent, PageRef
from docagent_rl.documents.contents import Heading, document_title, table_of_contents
from docagent_rl.retrieval.tokens import WORD

_SEPARATOR = " > "
_KEPT = 16


@dataclass(frozen=True, slots=True)
class Section:
    """The part of a page's text under one heading."""

    start: int
    """Its first character."""
    path: tuple[str, ...]
    """The heading with those above it, the top one first; empty before the first heading of a document."""


@dataclass(frozen=True, slots=True)
class PageContext:
    """The context of a page's text; its first section begins with the page."""

    title: str = ""
    sections: tuple[Section, ...] = (Section(0, ()),)

    def at(self, place: int) -> str:
        """Return the title and the headings over a character of the text, as one line."""
        starts = [section.start for section in self.sections]
        path = self.sections[bisect_right(starts, place) - 1].path
        return _SEPARATOR.join(dict.fromkeys(filter(None, (self.title, *path))))

    def words(self) -> str:
        """Return the title and all headings of the page, each once."""
        headings = (heading for section in self.sections for heading in section.path)
        return "\n".join(dict.fromkeys(filter(None, (self.title, *headings))))


NO_CONTEXT = PageContext()
_contexts: cachetools.LRUCache[tuple[str, ...], tuple[PageContext, ...]] = cachetools.LRUCache(_KEPT)
_lock = threading.Lock()


def page_context(store: DocumentStore, ref: PageRef) -> PageContext:
    """Return the context of a page; those of the last documents are kept.

    Raises:
        UserError: the store has no such page, or holds its document damaged.
    """
    document = store.document(ref.doc_id)
    key = (str(store.path), ref.doc_id, *document.digests(PageContent.TEXT))
    with _lock:
        found = _contexts.get(key)
    if found is None:
        found = tuple(document_contexts(document))
        with _lock:
            _contexts[key] = found
    return found[ref.page - 1]


def document_contexts(document: Document) -> Iterator[PageContext]:
    """Yield the context of each page of a document."""
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    texts = {page.ref.page: page.text() for page in pages}
    headings = table_of_contents(document.outline, texts, first_lines=False)
    title = document_title(document.title, texts) or " ".join(WORD.findall(document.doc_id))
    yield from (PageContext(title, sections) for sections in page_sections(headings, texts))


def page_sections(headings: Sequence[Heading], texts: Mapping[int, str]) -> Iterator[tuple[Section, ...]]:
    """Yield the sections of each page, `texts` by its number; a heading that is not found begins its page."""
    on: dict[int, list[Heading]] = defaultdict(list)
    for heading in headings:
        on[heading.page].append(heading)
    path: tuple[Heading, ...] = ()
    for number, text in sorted(texts.items()):
        starts = {0: path}
        place = 0
        for heading in on[number]:
            place = _find(heading.title, text, place)
            path = (*(above for above in path if above.level < heading.level), heading)
            starts[place] = path
        yield tuple(Section(start, _titles(found)) for start, found in sorted(starts.items()))


def _titles(path: Iterable[Heading]) -> tuple[str, ...]:
    return tuple(heading.title for heading in path)


def _find(title: str, text: str, place: int) -> int:
    """Return where a title stands in a text from a place on, at the beginning of a line if it does so."""
    words = r"[\W_]+".join(map(re.escape, WORD.findall(title)))
    for begin in (r"(?m)^[\W\d_]*", r"\b"):
        if words and (match := re.compile(begin + words, re.IGNORECASE).search(text, place)):
            return match.start()
    return place
