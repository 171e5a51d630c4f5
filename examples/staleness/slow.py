"""A retriever some of whose searches are slow, so that some trajectories take much longer."""

import hashlib
import time

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever


class SlowRetriever:
    """BM25 with a pause before one in `one_in` queries, which a hash of the query's text chooses.

    The run passes the store and its `docagent.retriever.index`; the other arguments are
    `docagent.retriever.options`.
    """

    def __init__(self, store, index, *, pause_s=15.0, one_in=3):
        if pause_s < 0 or one_in < 1:
            raise UserError(
                f"pause_s={pause_s}, one_in={one_in}: expected pause_s >= 0 and one_in >= 1"
            )
        self._bm25 = BM25Retriever.build(store)
        self._pause_s = pause_s
        self._one_in = one_in

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        if any(self.is_slow(query) for query in queries):
            time.sleep(self._pause_s)
        return self._bm25.search(queries, doc_id=doc_id, top_k=top_k, exclude=exclude)

    def is_slow(self, query):
        """Return whether the search pauses before a query."""
        digest = hashlib.sha256(query.encode()).digest()
        return int.from_bytes(digest[:4], "big") % self._one_in == 0
