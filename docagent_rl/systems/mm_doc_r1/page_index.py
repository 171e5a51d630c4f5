"""BM25 over the pages of one document, with the word statistics of that document alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, check_queries, top_rows
from docagent_rl.retrieval.bm25 import BM25Settings
from docagent_rl.retrieval.bm25s_library import load_bm25s
from docagent_rl.retrieval.tokens import Tokenizer

if TYPE_CHECKING:
    import bm25s


class PageIndex:
    """A small index that lives in memory.

    `BM25Retriever` searches one document too, but weighs words by the whole corpus; systems whose world is
    one document weigh them by that document. The formula is the same (see `docagent_rl.retrieval.bm25`).

    Args:
        doc_id: the document.
        texts: text of its pages by page number; pages without an entry cannot be found.
        settings: of BM25.

    Raises:
        UserError: the stemmer is not installed.
    """

    def __init__(self, doc_id: str, texts: Mapping[int, str], settings: BM25Settings | None = None) -> None:
        bm25s = load_bm25s()

        settings = settings or BM25Settings()
        self._tokenize = Tokenizer(settings.stemmer)
        self._refs = [PageRef(doc_id, number) for number in sorted(texts)]
        vocabulary: dict[str, int] = {}
        rows = [_encode(self._tokenize(texts[ref.page]), vocabulary) for ref in self._refs]
        self._index: bm25s.BM25 | None = None
        # bm25s has no index without words: a scanned document without text layer
        if vocabulary:
            self._index = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene", backend="numpy")
            self._index.index((rows, vocabulary), show_progress=False)

    def tokenize(self, text: str) -> list[str]:
        """The tokens that a page or a query with this text has."""
        return self._tokenize(text)

    def search(self, query: str, top_k: int) -> list[Hit]:
        """The best pages, best first, equal scores in page order; pages that share no word are never hits.

        Raises:
            UserError: `top_k` is less than 1.
        """
        check_queries([query], top_k)
        if self._index is None:
            return []
        ids = self._index.get_tokens_ids(self._tokenize(query))
        if not ids:
            return []
        scores = self._index.get_scores_from_ids(ids)
        return [Hit(self._refs[row], float(scores[row])) for row in top_rows(scores, top_k)]


def _encode(tokens: Iterable[str], vocabulary: dict[str, int]) -> list[int]:
    return [vocabulary.setdefault(token, len(vocabulary)) for token in tokens]
