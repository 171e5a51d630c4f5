"""Texts of pages as indexes of words hold them: behind the title of their document, and their headings.

The text that agents read stays as it is.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from docagent_rl.documents import Document
from docagent_rl.documents.contents import Heading, document_title, table_of_contents
from docagent_rl.retrieval.tokens import WORD


def indexed_texts(document: Document) -> Iterator[str]:
    """Yield the text of each page behind the title and the headings that it stands under, each once.

    A page without text has none.
    """
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    texts = {page.ref.page: page.text() for page in pages}
    headings = table_of_contents(document.outline, texts, first_lines=False)
    title = document_title(document.title, texts) or " ".join(WORD.findall(document.doc_id))
    for text, above in zip(texts.values(), page_headings(headings, texts), strict=True):
        words = "\n".join(dict.fromkeys(filter(None, (title, *above))))
        yield f"{words}\n{text}" if text.strip() else ""


def page_headings(headings: Sequence[Heading], texts: Mapping[int, str]) -> Iterator[list[str]]:
    """Yield the headings over the parts of each page, with those above them, in the order of the text.

    `texts` are those of the pages by number; a heading that is not found begins its page.
    """
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
        yield [heading.title for _, found in sorted(starts.items()) for heading in found]


def _find(title: str, text: str, place: int) -> int:
    """Return where a title stands in a text from a place on, at the beginning of a line if it does so."""
    words = r"[\W_]+".join(map(re.escape, WORD.findall(title)))
    for begin in (r"(?m)^[\W\d_]*", r"\b"):
        if words and (match := re.compile(begin + words, re.IGNORECASE).search(text, place)):
            return match.start()
    return place
