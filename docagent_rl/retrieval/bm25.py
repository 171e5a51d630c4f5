"""BM25 (`bm25_formula`) over the texts, descriptions and headings of pages.

The indexed text of a page starts with the document's title and the headings above the page. Agents
read the page's text without these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from pydantic import Field
from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.documents.contents import Heading, document_title, table_of_contents
from docagent_rl.documents.store import Document, DocumentStore, PageContent
from docagent_rl.retrieval.base import (
    Hit,
    PageRows,
    Pages,
    StaleIndexError,
    check_queries,
    top_rows,
)
from docagent_rl.retrieval.bm25_formula import BM25Settings, load_bm25s
from docagent_rl.retrieval.config import KEY, RetrieverConfig
from docagent_rl.retrieval.index_files import IndexFiles, IndexHeader, update_hint
from docagent_rl.retrieval.tokens import WORD, Tokenizer

if TYPE_CHECKING:
    import bm25s


class BM25Header(IndexHeader):
    """The header of a BM25 index: its documents and settings."""

    schema_version: Literal[5] = 5
    kind: Literal["bm25"] = "bm25"
    settings: BM25Settings
    fingerprint: str
    """Fingerprint of the store's texts (`DocumentStore.fingerprint`)."""
    doc_ids: tuple[str, ...]
    """Sorted ids; the index has one row per page, in the order of `PageRef`."""
    num_pages: tuple[Annotated[int, Field(ge=1)], ...]
    """Number of pages of each document."""


class BM25Retriever:
    """A `Retriever` over page text.

    Only pages that share a term with the query are hits, so a search may have fewer than `top_k`
    hits, and a page without text and description is never found. Searches within one document use
    the term statistics (df, avgdl) of the whole corpus, too. Unknown pages in `exclude` are
    ignored.

    Searching changes nothing, so any number of threads may search at once. The arrays of a loaded
    index are mapped into memory, and the processes of a node share them.
    """

    contents = (PageContent.TEXT,)
    """The contents of a page on which its rank depends."""

    def __init__(self, index: bm25s.BM25, header: BM25Header) -> None:
        self._index = index
        self._header = header
        self.settings: BM25Settings = header.settings
        """The settings with which the index was built."""
        self._tokenize = Tokenizer(self.settings.stemmer)
        self._rows = PageRows(header.doc_ids, header.num_pages)

    @classmethod
    def build(cls, store: DocumentStore, *, settings: BM25Settings | None = None) -> BM25Retriever:
        """Index the texts of all pages of `store`; see `indexed_texts`.

        Raises:
            UserError: No page has text or a description.
        """
        settings = settings or BM25Settings()
        doc_ids = store.doc_ids()
        header = BM25Header(
            settings=settings,
            fingerprint=store.fingerprint(PageContent.TEXT),
            doc_ids=tuple(doc_ids),
            num_pages=tuple(store.document(doc_id).num_pages for doc_id in doc_ids),
        )
        texts = (text for doc_id in doc_ids for text in indexed_texts(store.document(doc_id)))
        pages = sum(header.num_pages)
        console = Console(stderr=True)
        shown = track(texts, "indexing pages", pages, console=console, transient=True)
        tokenize = Tokenizer(settings.stemmer)
        vocabulary = {}
        rows = [
            [vocabulary.setdefault(token, len(vocabulary)) for token in tokenize(text)]
            for text in shown
        ]
        if not vocabulary:
            raise UserError(
                f"no page in {store.path} has text, so BM25 would find nothing: ingest PDFs with "
                "text, `docagent-rl describe` them, or use a retriever over page images"
            )
        index = load_bm25s().BM25(k1=settings.k1, b=settings.b, method="lucene", backend="numpy")
        index.index((rows, dict(vocabulary)), show_progress=False)
        return cls(index, header)

    def save(self, path: str | Path) -> None:
        """Write the index to the folder `path`, replacing an existing index.

        Raises:
            UserError: The path is a file, or a folder that contains something else.
        """
        files = IndexFiles(Path(path))
        with files.claimed():
            files.publish(
                lambda folder: self._index.save(folder, show_progress=False), self._header
            )

    @classmethod
    def load(cls, path: str | Path) -> BM25Retriever:
        """Read an index that `save` wrote, verifying every file. Nothing is unpickled.

        Raises:
            UserError: There is no index, or it is damaged or of another version.
        """
        return IndexFiles(Path(path)).read(cls._load)

    @classmethod
    def _load(cls, data: bytes, files: IndexFiles) -> BM25Retriever:
        header = files.parse(BM25Header, data)
        folder = files.verified_folder(header.files)
        try:
            index = load_bm25s().BM25.load(folder, mmap=True, show_progress=False, verbosity=0)
        except (OSError, ValueError, TypeError) as error:
            raise files.damaged(folder, str(error)) from error
        return cls(index, header.unsaved())

    def info(self) -> dict[str, object]:
        """Return the kind, the number of pages and the settings, by readable names."""
        return {"kind": self._header.kind, "pages": self.num_pages, **asdict(self.settings)}

    @property
    def num_pages(self) -> int:
        """Number of indexed pages."""
        return len(self._rows)

    def check(self, store: DocumentStore) -> None:
        """Check that `store` still contains the indexed texts.

        Raises:
            StaleIndexError: It does not.
        """
        if store.fingerprint(PageContent.TEXT) != self._header.fingerprint:
            raise StaleIndexError(
                f"the index does not match {store.path} as it is now (documents were added, "
                "removed or changed, or it is another store): "
                f"{update_hint(Path('INDEX'), store.path)}"
            )

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`."""
        check_queries(queries, top_k)
        start, end = self._rows.span(doc_id)
        excluded = self._rows.rows(exclude)
        excluded = excluded[(excluded >= start) & (excluded < end)] - start
        return [self._search_one(query, start, end, excluded, top_k) for query in queries]

    def _search_one(
        self, query: str, start: int, end: int, excluded: np.ndarray, top_k: int
    ) -> list[Hit]:
        token_ids = self._index.get_tokens_ids(self._tokenize(query))
        if not token_ids:
            return []
        scores = self._scores(token_ids, start, end)
        scores[excluded] = 0
        rows = top_rows(scores, top_k)
        found = zip(rows, scores[rows], strict=True)
        return [Hit(self._rows.ref(start + row), float(score)) for row, score in found]

    def _scores(self, token_ids: Sequence[int], start: int, end: int) -> np.ndarray:
        """Return the scores of consecutive rows, shape (end - start,), from their postings.

        They equal those of bm25s's `get_scores_from_ids`, which scores all rows, to the last bit.
        """
        postings = cast("dict[str, np.ndarray]", self._index.scores)
        data = postings["data"]
        rows = postings["indices"]
        starts = postings["indptr"]
        bounds = np.array([start, end], rows.dtype)
        scores = np.zeros(end - start, data.dtype)
        for token in token_ids:
            first = int(starts[token])
            last = int(starts[token + 1])
            # the rows of a token are strictly increasing
            first, last = first + np.searchsorted(rows[first:last], bounds)
            scores[rows[first:last] - start] += data[first:last]
        return scores


def open_bm25(
    config: RetrieverConfig, store: DocumentStore, key: str = KEY, *, stale: bool = False
) -> BM25Retriever:
    """Open the index of a configuration, which must match the store unless `stale` is set.

    See `opening.open_local`.
    """
    retriever = BM25Retriever.load(config.required_index(key))
    if not stale:
        retriever.check(store)
    return retriever


def indexed_texts(document: Document) -> Iterator[str]:
    """Yield the text that is indexed for each page.

    It consists of the title, the headings above the page (each once), its text and its description.
    For a page with neither text nor description, it is empty.
    """
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    texts = {page.ref.page: page.text() for page in pages}
    headings = table_of_contents(document.outline, texts, first_lines=False)
    title = document_title(document.title, texts) or " ".join(WORD.findall(document.doc_id))
    for page, above in zip(pages, page_headings(headings, texts), strict=True):
        words = "\n".join(dict.fromkeys(filter(None, (title, *above))))
        text = page.searched_text()
        yield f"{words}\n{text}" if text.strip() else ""


def page_headings(headings: Sequence[Heading], texts: Mapping[int, str]) -> Iterator[list[str]]:
    """Yield the headings of the sections on each page, with their parent headings.

    `texts` are the texts of the pages by number. If a page begins with a heading, sections that
    began on earlier pages do not count for it. A heading that is not found in the text is taken to
    be at the start of its page.
    """
    path: tuple[Heading, ...] = ()
    for number, text in sorted(texts.items()):
        here = [heading for heading in headings if heading.page == number]
        shown = [] if here and _begins(here[0].title, text) else list(path)
        for heading in here:
            path = (*(above for above in path if above.level < heading.level), heading)
            shown += path
        yield list(dict.fromkeys(heading.title for heading in shown))


def _begins(title: str, text: str) -> bool:
    """Return whether a text has no letter before a title, or does not contain the title."""
    words = r"[\W_]+".join(map(re.escape, WORD.findall(title)))
    found = re.search(words, text, re.IGNORECASE)
    return found is None or not re.search(r"[^\W\d_]", text[: found.start()])
