"""Pages in the form in which a model is shown them, and which of them suit each kind of
question.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from docagent_rl.documents.contents import list_of_figures
from docagent_rl.documents.manifest import TextReason
from docagent_rl.documents.store import Document, DocumentStore, Page
from docagent_rl.endpoints.usage import image_part
from docagent_rl.envs.images import jpeg
from docagent_rl.lab.generate.config import EvidenceKind, GenerateConfig, PageView
from docagent_rl.lab.generate.replies import Prompts, fill
from docagent_rl.retrieval.tokens import Tokenizer

_PAGE_CHARS = 12_000
"""Characters of a page's text that are shown at most; a dense page has 6,000."""
_FEWEST_CHARS = 80
"""Pages with less text are not asked about if pages are shown as text."""
Content = str | list[Mapping[str, Any]]
"""The content of a message: a text, or texts and pictures."""


class DocumentPages:
    """The pages of a document: their texts, their tables and figures, and how similar they are."""

    _tokens = Tokenizer()

    def __init__(self, document: Document, config: GenerateConfig) -> None:
        self.document = document
        self.doc_id = document.doc_id
        self.count = document.num_pages
        self._config = config

    @cached_property
    def texts(self) -> dict[int, str]:
        """Text by page, from 1."""
        return {number: self.document.page(number).text() for number in range(1, self.count + 1)}

    @cached_property
    def content(self) -> list[list[str | None]]:
        """Hashes of the pictures, if they are shown, and of the texts."""
        seen = self._config.view.pictures
        pages = map(self.document.page, range(1, self.count + 1))
        return [[page.image_hash if seen else None, page.text_hash] for page in pages]

    @cached_property
    def usable(self) -> tuple[int, ...]:
        """Pages of which enough can be shown to the model to ask about them."""
        return self._with_text(_FEWEST_CHARS)

    @cached_property
    def readable(self) -> tuple[int, ...]:
        """Pages of which anything can be shown to the model, however little."""
        return self._with_text(1)

    @cached_property
    def unseen(self) -> tuple[int, ...]:
        """Pages that are not blank but cannot be shown to the model: pages without text, if shown
        as text.
        """
        hidden = set(range(1, self.count + 1)) - set(self.readable)
        return tuple(page for page in sorted(hidden) if not self._is_blank(page))

    def with_kind(self, kind: EvidenceKind) -> tuple[int, ...]:
        """Return the usable pages that a question of this kind can be about.

        Pages with tables and figures are recognised by captions. If no caption is found, any
        picture may still show one; texts do not.
        """
        if kind not in (EvidenceKind.TABLE, EvidenceKind.CHART):
            return self.usable
        if kind is EvidenceKind.CHART and not self._config.view.pictures:
            return ()
        named = {page for page, table in self._captions if table == (kind is EvidenceKind.TABLE)}
        found = tuple(page for page in self.usable if page in named)
        return found or (self.usable if self._config.view.pictures and not self._captions else ())

    def most_similar(self, text: str, pages: Sequence[int], limit: int) -> list[int]:
        """Return the `limit` pages that share most words with a text, weighted by rarity; in page
        order.

        If there are too few, pages that share nothing fill up the rest, the first ones first.
        """
        wanted = set(self._tokens(text))
        weights = {
            word: math.log(1 + self.count / self._holders[word])
            for word in wanted & set(self._holders)
        }
        scores = {
            page: math.fsum(
                weights[word] for word in sorted(wanted & self._words[page] & set(weights))
            )
            for page in pages
        }
        ranked = sorted(pages, key=lambda page: (-scores[page], page))
        return sorted(ranked[:limit])

    def _with_text(self, fewest: int) -> tuple[int, ...]:
        if self._config.view is not PageView.TEXT:
            return tuple(range(1, self.count + 1))
        return tuple(
            page for page, text in self.texts.items() if len(" ".join(text.split())) >= fewest
        )

    def _is_blank(self, page: int) -> bool:
        reading = self.document.page(page).reading
        return reading is not None and reading.reason is TextReason.BLANK

    @cached_property
    def _captions(self) -> list[tuple[int, bool]]:
        return [(caption.page, caption.is_of_table) for caption in list_of_figures(self.texts)]

    @cached_property
    def _words(self) -> dict[int, frozenset[str]]:
        return {page: frozenset(self._tokens(text)) for page, text in self.texts.items()}

    @cached_property
    def _holders(self) -> Counter[str]:
        return Counter(word for words in self._words.values() for word in words)


@dataclass(frozen=True, slots=True)
class PageViews:
    """Builds messages that show pages of a store. May be used from several threads."""

    store: DocumentStore
    config: GenerateConfig
    prompts: Prompts
    _documents: dict[str, DocumentPages] = field(default_factory=dict)

    def of(self, doc_id: str) -> DocumentPages:
        """Return the pages of a document.

        Raises:
            UserError: the store has no such document.
        """
        if doc_id not in self._documents:
            self._documents[doc_id] = DocumentPages(self.store.document(doc_id), self.config)
        return self._documents[doc_id]

    def content(self, words: str, doc_id: str, pages: Sequence[int]) -> Content:
        """Return a message's content: words, followed by pages of a document. Blocks.

        Raises:
            UserError: a page cannot be read.
        """
        parts: list[Mapping[str, Any]] = [_text(words)]
        for page in pages:
            parts += self._page(doc_id, page)
        if all(part["type"] == "text" for part in parts):
            return "\n\n".join(part["text"] for part in parts)
        return parts

    def _page(self, doc_id: str, number: int) -> list[Mapping[str, Any]]:
        known = self.of(doc_id)
        view = self.config.view
        place = {"number": number, "count": known.count, "text": ""}
        shown: list[Mapping[str, Any]] = []
        if view.pictures:
            shown.append(_text(fill(self.prompts["page"], "picture", **place)))
            shown.append(image_part(self._picture(known.document.page(number))))
        text = known.texts[number].strip()[:_PAGE_CHARS]
        if view is PageView.TEXT or (view is PageView.BOTH and text):
            shown.append(_text(fill(self.prompts["page"], "text", **{**place, "text": text})))
        return shown

    def _picture(self, page: Page) -> bytes:
        most = self.config.max_pixels
        return (
            jpeg(page.image(), most_pixels=most)
            if math.prod(page.size) > most
            else page.image_bytes()
        )


def _text(text: str) -> Mapping[str, Any]:
    return {"type": "text", "text": text}
