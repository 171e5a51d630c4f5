"""BM25 over the text layer of pages, by bm25s.

The variant is Lucene's (Kamphuis et al., "Which BM25 Do You Mean?", ECIR 2020, table 1). Each occurrence of a
token t in the query adds `ln(1 + (N - df + 0.5) / (df + 0.5)) * tf / (k1 * (1 - b + b * dl / avgdl) + tf)`,
where N counts pages, df pages that hold t, tf t on the page, dl tokens of the page; avgdl is the mean of dl.
Settings that are `classic` multiply it by k1 + 1, as Robertson's formula does: the order stays, and a
threshold that was chosen for such scores keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.sealed import seal
from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.retrieval.base import Hit, check_queries, top_rows
from docagent_rl.retrieval.bm25s_library import load_bm25s
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.index_header import BM25Settings, Header, check_arrays, damaged, read_header
from docagent_rl.retrieval.postings import Postings
from docagent_rl.retrieval.registry import required_index
from docagent_rl.retrieval.rows import PageRows
from docagent_rl.retrieval.tokens import Tokenizer

if TYPE_CHECKING:
    import bm25s

# what bm25s and numpy raise for files that are not theirs
_UNREADABLE = (OSError, ValueError, EOFError, TypeError, KeyError, AttributeError, ArithmeticError)
_UNREADABLE += (SyntaxError, MemoryError, LookupError)


class BM25Retriever:
    """A `Retriever` over page text.

    Only pages that share a word with the query are hits, in one document as in the whole corpus: a search may
    have fewer than `top_k` hits, and a page without text is never one. Word statistics (df, avgdl) are those
    of the whole corpus in both cases. Pages in `exclude` that the index does not know are ignored.

    Searching changes nothing, so any number of threads may search at once. The arrays of an index that was
    read are mapped into memory: the processes of a node share them. In one document only its own pages are
    scored.
    """

    contents = (PageContent.TEXT,)
    """What of a page its rank depends on."""

    def __init__(self, index: bm25s.BM25, header: Header) -> None:
        self._index = index
        self._header = header
        self._tokenize = Tokenizer(header.settings.stemmer)
        self._rows = PageRows(header.doc_ids, header.num_pages)
        self._postings = Postings(cast("Mapping[str, np.ndarray]", index.scores))
        self._factor = header.settings.k1 + 1 if header.settings.classic else 1.0
        self._span = (0, len(self._rows))

    def __eq__(self, other: object) -> bool:
        """Whether both rank alike: the same texts under the same settings."""
        return self._header == other._header if isinstance(other, BM25Retriever) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._header.settings, self._header.fingerprint))

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
        header = Header(
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
        bm25s = load_bm25s()

        index = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene", backend="numpy")
        index.index((rows, vocabulary), show_progress=False)
        return cls(index, header)

    def save(self, path: str | Path) -> None:
        """Write the index to the folder `path`, replacing an index that is there.

        Raises:
            UserError: The path is a file, or a folder that holds something else.
        """

        def write(folder: Path) -> None:
            self._index.save(folder, show_progress=False, allow_pickle=False)

        def header(files: dict[str, str]) -> str:
            saved = self._header.model_copy(update={"files": files})
            return seal(saved.model_dump_json(indent=1))

        IndexFiles(Path(path)).publish(write, header)

    @classmethod
    def load(cls, path: str | Path) -> BM25Retriever:
        """Read an index that `save` wrote, verifying every file. Nothing is unpickled.

        Raises:
            UserError: There is no index, it is damaged or of another version, or its stemmer is missing.
        """
        return IndexFiles(Path(path)).read(cls._load)

    @classmethod
    def _load(cls, data: bytes, files: IndexFiles) -> BM25Retriever:
        bm25s = load_bm25s()

        header = read_header(data, files)
        for path, problem in files.damages(header.files).items():
            raise damaged(path, problem, files)
        folder = files.folder(header.files)
        try:
            index = bm25s.BM25.load(folder, show_progress=False, mmap=True, backend="numpy")
            check_arrays(index, header.settings.k1, header.settings.b, sum(header.num_pages))
        except _UNREADABLE as error:
            raise damaged(folder, str(error) or type(error).__name__, files) from error
        return cls(index, header.model_copy(update={"files": {}, "checksum": None}))

    @property
    def settings(self) -> BM25Settings:
        """The settings that the index was built with."""
        return self._header.settings

    @property
    def num_pages(self) -> int:
        """Number of indexed pages."""
        return len(self._rows)

    def check(self, store: DocumentStore) -> None:
        """Check that `store` still holds the texts that were indexed.

        Raises:
            UserError: It does not.
        """
        if store.fingerprint(PageContent.TEXT) != self._header.fingerprint:
            raise UserError(
                f"the index does not belong to {store.path} as it is now (documents were added, removed or "
                f"ingested again, or it is another store): rebuild it with "
                f"`docagent-rl index build --store {store.path} --out INDEX --force`"
            )

    def part(self, number: int, of: int) -> BM25Retriever:
        """See `service.shards.Divisible`; the index is shared."""
        found = BM25Retriever(self._index, self._header)
        found._span = self._rows.parts(of)[number]
        return found

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
        start, end = self._span if doc_id is None else self._rows.span(doc_id)
        excluded = self._rows.rows(exclude)
        excluded = excluded[(excluded >= start) & (excluded < end)] - start
        return [self._search_one(query, start, end, excluded, top_k) for query in queries]

    def _search_one(self, query: str, start: int, end: int, excluded: np.ndarray, top_k: int) -> list[Hit]:
        token_ids = self._index.get_tokens_ids(self._tokenize(query))
        if not token_ids:
            return []
        scores = self._postings.scores(token_ids, start, end)
        scores[excluded] = 0
        rows = top_rows(scores, top_k)
        return [
            Hit(self._rows.ref(start + row), float(score) * self._factor)
            for row, score in zip(rows, scores[rows], strict=True)
        ]


def open_bm25(config: RetrieverConfig, store: DocumentStore) -> BM25Retriever:
    """See `registry.Opener`."""
    retriever = BM25Retriever.load(required_index(config))
    retriever.check(store)
    return retriever


def is_index(path: Path) -> bool:
    """Whether a folder holds an index, damaged or not."""
    return IndexFiles(path).header.is_file()


def _zip(header: Header) -> Iterable[tuple[str, int]]:
    return zip(header.doc_ids, header.num_pages, strict=True)


def _encode(texts: Iterable[str], tokenize: Tokenizer) -> tuple[list[list[int]], dict[str, int]]:
    """Token ids of each text, and the vocabulary in the order of first occurrence."""
    vocabulary: dict[str, int] = {}
    rows = [[vocabulary.setdefault(token, len(vocabulary)) for token in tokenize(text)] for text in texts]
    return rows, vocabulary
