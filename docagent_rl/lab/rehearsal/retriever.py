"""A stand-in for a retriever: BM25 that takes the time of a slower one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.base import Hit, Pages
from docagent_rl.retrieval.bm25 import BM25Retriever


class PacedRetriever:
    """BM25 whose searches take `seconds` more.

    Raises:
        UserError: there is no index of BM25 in the folder `index`.
    """

    def __init__(self, store: DocumentStore, index: Path, *, seconds: float = 0.0) -> None:
        self._words = BM25Retriever.load(index)
        self._seconds = seconds

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`."""
        time.sleep(self._seconds)
        return self._words.search(queries, doc_id=doc_id, top_k=top_k, exclude=exclude)
