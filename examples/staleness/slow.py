"""A retriever some of whose searches are slow, so that some trajectories take much longer."""

import hashlib
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.base import Hit
from docagent_rl.retrieval.bm25 import BM25Retriever


class SlowRetriever:
    """BM25 with a pause before one in `one_in` queries, which a hash of the query's text chooses.

    Args:
        store: the document store, which the run gives.
        index: `docagent.retriever.index`, which is not needed: the index is built in memory.
        pause_s: the seconds of a pause; like `one_in`, set by `docagent.retriever.options`.
        one_in: on average, one query in so many is slow.

    Raises:
        UserError: an option is out of range.
    """

    def __init__(
        self, store: DocumentStore, index: Path | None, *, pause_s: float = 15.0, one_in: int = 3
    ) -> None:
        if pause_s < 0 or one_in < 1:
            raise UserError(
                f"pause_s={pause_s}, one_in={one_in}: expected pause_s >= 0 and one_in >= 1"
            )
        self._bm25 = BM25Retriever.build(store)
        self._pause_s = pause_s
        self._one_in = one_in

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """Search as BM25 does, after a pause if a query is slow."""
        if any(self.is_slow(query) for query in queries):
            time.sleep(self._pause_s)
        return self._bm25.search(queries, doc_id=doc_id, top_k=top_k, exclude=exclude)

    def is_slow(self, query: str) -> bool:
        """Return whether the search pauses before a query."""
        digest = hashlib.sha256(query.encode()).digest()
        return int.from_bytes(digest[:4], "big") % self._one_in == 0
