"""A retriever whose best pages are reranked."""

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.retrieval.base import FirstStage, Hit, Pages, Retriever, best_hits, check_queries
from docagent_rl.retrieval.config import KEY, RerankConfig, RetrieverConfig
from docagent_rl.retrieval.rerank.spec import BATCH, Reranker, RerankerSpec, named_reranker


class RerankedRetriever:
    """A `Retriever` that ranks another retriever's best pages by a reranker's scores.

    A hit has the reranker's score, and also rank and score before reranking. `make` opens the
    model, at the latest for the first search.
    """

    def __init__(
        self,
        retriever: Retriever,
        store: DocumentStore,
        candidates: int,
        spec: RerankerSpec,
        make: Callable[[], Reranker],
    ) -> None:
        first: Iterable[PageContent] = getattr(retriever, "contents", PageContent)
        self.contents: tuple[PageContent, ...] = tuple(dict.fromkeys((*first, spec.content)))
        """The contents of a page on which its rank depends."""
        self._retriever = retriever
        self._store = store
        self._candidates = candidates
        self._make = make
        self._reranker: Reranker | None = None
        self._opening = threading.Lock()

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`."""
        check_queries(queries, top_k)
        most = max(self._candidates, top_k)
        found = self._retriever.search(queries, doc_id=doc_id, top_k=most, exclude=exclude)

        # a query that is asked twice is scored once
        pairs: dict[tuple[str, PageRef], None] = {}
        for query, hits in zip(queries, found, strict=True):
            for hit in hits:
                pairs[query, hit.ref] = None
        scores: dict[tuple[str, PageRef], float] = {}
        if pairs:
            texts_and_pages = [(query, self._store.page(ref)) for query, ref in pairs]
            scores = dict(zip(pairs, self.open().score(texts_and_pages), strict=True))

        reranked = []
        for query, hits in zip(queries, found, strict=True):
            rescored = [
                Hit(hit.ref, scores[query, hit.ref], FirstStage(rank, hit.score))
                for rank, hit in enumerate(hits, start=1)
            ]
            reranked.append(best_hits(rescored, top_k))
        return reranked

    def open(self) -> Reranker:
        """Return the model, which is loaded only once."""
        with self._opening:
            if self._reranker is None:
                self._reranker = self._make()
            return self._reranker


def _open(config: RerankConfig, spec: RerankerSpec, key: str) -> Reranker:
    """Open a section's model, on a server or in this process, where it imports torch."""
    if config.endpoint is not None:
        from docagent_rl.retrieval.pooling_server import ServedReranker

        return ServedReranker(spec, config.endpoint, named=key)
    from docagent_rl.retrieval.rerank.local import open_reranker

    return open_reranker(
        spec, named=key, device=config.device, threads=config.threads, batch_size=BATCH
    )


def with_reranker(
    retriever: Retriever,
    config: RetrieverConfig,
    store: DocumentStore,
    key: str = KEY,
    *,
    late: bool = False,
) -> Retriever:
    """Return the retriever, wrapped by the reranker of its configuration, if any.

    With `late`, the model is not opened before the first search.

    Raises:
        UserError: There is no such model, or it cannot be loaded.
        InfrastructureError: Its server does not respond.
    """
    section = config.rerank
    if section is None:
        return retriever
    key = f"{key}.rerank"
    spec = named_reranker(section.model, f"{key}.model")
    if section.checkpoint is not None:
        spec = spec.model_copy(update={"model": section.checkpoint, "revision": None})
    make = partial(_open, section, spec, key)
    found = RerankedRetriever(retriever, store, section.candidates, spec, make)
    if not late:
        found.open()
    return found
