"""BM25 over the text layer of pages, by bm25s.

The variant is Lucene's (Kamphuis et al., "Which BM25 Do You Mean?", ECIR 2020, table 1). Each occurrence of a
token t in the query adds `ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (k1 * (1 - b + b * dl / avgdl) + tf)`,
where N counts pages, df pages that hold t, tf t on the page, dl tokens of the page; avgdl is the mean of dl.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import bm25s
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from rich.console import Console
from rich.progress import track

from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.documents.store import unknown_document
from docagent_rl.errors import UserError
from docagent_rl.io import atomic_dir, atomic_write
from docagent_rl.retrieval.base import Hit, check_queries, top_rows
from docagent_rl.retrieval.tokens import Stemmer, Tokenizer

_HEADER = "docagent_index.json"


@dataclass(frozen=True, slots=True)
class BM25Settings:
    """Settings of a BM25 index.

    Raises:
        UserError: A value is out of its range.
    """

    k1: float = 1.5
    """How slowly repetitions of a word saturate, from 0."""
    b: float = 0.75
    """How much long pages are discounted, 0 to 1."""
    stemmer: Stemmer = Stemmer.NONE

    def __post_init__(self) -> None:
        if not 0 <= self.k1 < float("inf"):
            raise UserError(f"k1={self.k1}: expected a number from 0")
        if not 0 <= self.b <= 1:
            raise UserError(f"b={self.b}: expected a number from 0 to 1")


class _Header(BaseModel):
    """What lies beside the arrays of bm25s."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    kind: Literal["bm25"] = "bm25"
    settings: BM25Settings
    fingerprint: str
    """Of the texts of the store (`DocumentStore.fingerprint`)."""
    doc_ids: tuple[str, ...]
    """Sorted; the index has one row a page, in the order of `PageRef`."""
    num_pages: tuple[Annotated[int, Field(ge=1)], ...]
    """Of each document."""


class BM25Retriever:
    """A `Retriever` over page text.

    Only pages that share a word with the query are hits, in one document as in the whole corpus: a search may
    have fewer than `top_k` hits, and a page without text is never one. Word statistics (df, avgdl) are those
    of the whole corpus in both cases. Pages in `exclude` that the index does not know are ignored.

    Searching changes nothing, so any number of threads may search at once.
    """

    def __init__(self, index: bm25s.BM25, header: _Header) -> None:
        self._index = index
        self._header = header
        self._tokenize = Tokenizer(header.settings.stemmer)
        self._positions = {doc_id: position for position, doc_id in enumerate(header.doc_ids)}
        # rows of document i: starts[i] to starts[i + 1]
        self._starts = np.concatenate([[0], np.cumsum(header.num_pages)]).astype(np.int64)

    @classmethod
    def build(
        cls, store: DocumentStore, *, settings: BM25Settings | None = None, progress: bool = False
    ) -> BM25Retriever:
        """Index the text of all pages of `store`.

        Raises:
            UserError: No page has text, or the stemmer is not installed.
        """
        settings = settings or BM25Settings()
        fingerprint = store.fingerprint(PageContent.TEXT)
        doc_ids = store.doc_ids()
        num_pages = tuple(store.document(doc_id).num_pages for doc_id in doc_ids)
        header = _Header(
            settings=settings, fingerprint=fingerprint, doc_ids=tuple(doc_ids), num_pages=num_pages
        )
        texts = (store.page(PageRef(doc, n)).text() for doc, k in _zip(header) for n in range(1, k + 1))
        shown = track(
            texts, "Indexing pages", total=sum(num_pages), console=Console(stderr=True), disable=not progress
        )
        rows, vocabulary = _encode(shown, Tokenizer(settings.stemmer))
        if not vocabulary:
            raise UserError(
                f"no page in {store.path} has a text layer, so BM25 would find nothing: "
                "ingest PDFs with text, or use a retriever that looks at page images"
            )
        index = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene", backend="numpy")
        index.index((rows, vocabulary), show_progress=False)
        return cls(index, header)

    def save(self, path: str | Path) -> None:
        """Write the index to the folder `path`, replacing an index that is there.

        Raises:
            UserError: The path is a file, or a folder that holds something else.
        """
        path = Path(path)
        occupied = path.is_file() or (path.is_dir() and any(path.iterdir()))
        if occupied and not (path / _HEADER).is_file():
            raise UserError(f"{path} exists and is not an index: name a new folder")
        with atomic_dir(path) as folder:
            self._index.save(folder, show_progress=False, allow_pickle=False)
            atomic_write(folder / _HEADER, self._header.model_dump_json(indent=1))

    @classmethod
    def load(cls, path: str | Path) -> BM25Retriever:
        """Read an index that `save` wrote. Nothing is unpickled.

        Raises:
            UserError: There is no index, it is damaged or of another version, or its stemmer is missing.
        """
        path = Path(path)
        if not (path / _HEADER).is_file():
            raise UserError(
                f"{path} is not an index (no {_HEADER}): "
                f"make one with `docagent-rl index build --store STORE --out {path}`"
            )
        try:
            header = _Header.model_validate_json((path / _HEADER).read_bytes())
            index = bm25s.BM25.load(path, show_progress=False, allow_pickle=False, backend="numpy")
            rows = index.scores["num_docs"]
        except (ValidationError, OSError, ValueError, EOFError, TypeError, KeyError) as error:
            raise UserError(f"{path}: damaged, or made by another version: rebuild it ({error})") from error
        if len(header.doc_ids) != len(header.num_pages) or rows != sum(header.num_pages):
            raise UserError(f"{path}: its files are not of one index: rebuild it")
        return cls(index, header)

    @property
    def settings(self) -> BM25Settings:
        """The settings that the index was built with."""
        return self._header.settings

    @property
    def num_pages(self) -> int:
        """Number of indexed pages."""
        return int(self._starts[-1])

    def check(self, store: DocumentStore) -> None:
        """Check that `store` still holds the texts that were indexed.

        Raises:
            UserError: It does not.
        """
        if store.fingerprint(PageContent.TEXT) != self._header.fingerprint:
            raise UserError(
                f"the index does not belong to {store.path} as it is now (documents were added, removed or "
                f"ingested again, or it is another store): rebuild it with "
                f"`docagent-rl index build --store {store.path} --out INDEX`"
            )

    def tokenize(self, text: str) -> list[str]:
        """The tokens that a page or a query with this text has."""
        return self._tokenize(text)

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """See `Retriever.search`."""
        check_queries(queries, top_k)
        start, end = self._rows_of(doc_id)
        excluded = self._excluded_rows(exclude)
        excluded = excluded[(excluded >= start) & (excluded < end)] - start
        return [self._search_one(query, start, end, excluded, top_k) for query in queries]

    def _search_one(self, query: str, start: int, end: int, excluded: np.ndarray, top_k: int) -> list[Hit]:
        token_ids = self._index.get_tokens_ids(self._tokenize(query))
        if not token_ids:
            return []
        scores = self._index.get_scores_from_ids(token_ids)[start:end]
        scores[excluded] = 0
        rows = top_rows(scores, top_k)
        return [
            Hit(self._ref(start + row), float(score)) for row, score in zip(rows, scores[rows], strict=True)
        ]

    def _rows_of(self, doc_id: str | None) -> tuple[int, int]:
        if doc_id is None:
            return 0, self.num_pages
        position = self._positions.get(doc_id)
        if position is None:
            raise unknown_document(doc_id, self._header.doc_ids, "the index")
        return int(self._starts[position]), int(self._starts[position + 1])

    def _excluded_rows(self, exclude: Collection[PageRef]) -> np.ndarray:
        rows = [
            self._starts[position] + ref.page - 1
            for ref in exclude
            if (position := self._positions.get(ref.doc_id)) is not None
            and ref.page <= self._header.num_pages[position]
        ]
        return np.asarray(rows, dtype=np.int64)

    def _ref(self, row: int) -> PageRef:
        position = int(np.searchsorted(self._starts, row, side="right")) - 1
        return PageRef(self._header.doc_ids[position], int(row - self._starts[position]) + 1)


def _zip(header: _Header) -> Iterable[tuple[str, int]]:
    return zip(header.doc_ids, header.num_pages, strict=True)


def _encode(texts: Iterable[str], tokenize: Tokenizer) -> tuple[list[list[int]], dict[str, int]]:
    """Token ids of each text, and the vocabulary in the order of first occurrence."""
    vocabulary: dict[str, int] = {}
    rows = [[vocabulary.setdefault(token, len(vocabulary)) for token in tokenize(text)] for text in texts]
    return rows, vocabulary
