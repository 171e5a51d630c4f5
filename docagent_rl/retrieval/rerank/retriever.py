"""A retriever whose best pages are ranked anew by a reranker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import cachetools

from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.retrieval.base import FirstStage, Hit, Pages, Retriever, best_hits, check_queries
from docagent_rl.retrieval.config import KEY, RerankConfig, RetrieverConfig
from docagent_rl.retrieval.rerank.spec import Reranker, RerankerSpec, named_reranker

_Pair = tuple[str, PageRef]


class RerankedRetriever:
    """A `Retriever` that asks another one for candidates and ranks them by a reranker's scores.

    A hit has the reranker's score, and rank and score of the first stage beside it. The model is opened with
    the first search. Scores of pairs are kept: trajectories of a group ask alike.

    Args:
        retriever: gives candidates.
        store: the documents.
        config: the reranker's.
        spec: the specification that `config` names.
        make: opens the model.
    """

    def __init__(
        self,
        retriever: Retriever,
        store: DocumentStore,
        config: RerankConfig,
        spec: RerankerSpec,
        make: Callable[[], Reranker],
    ) -> None:
        first: Iterable[PageContent] = getattr(retriever, "contents", PageContent)
        self.contents: tuple[PageContent, ...] = tuple(dict.fromkeys((*first, spec.content)))
        """The contents of a page that its rank depends on."""
        self._retriever, self._store, self._config, self._spec = retriever, store, config, spec
        self._make = make
        self._reranker: Reranker | None = None
        self._known: cachetools.LRUCache[_Pair, float] = cachetools.LRUCache(config.cached)
        self._opening, self._lock = threading.Lock(), threading.Lock()

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`."""
        check_queries(queries, top_k)
        most = max(self._config.candidates, top_k)
        found = self._retriever.search(queries, doc_id=doc_id, top_k=most, exclude=exclude)
        pairs = [(query, hit.ref) for query, hits in zip(queries, found, strict=True) for hit in hits]
        scores = self._scores(pairs)
        return [
            best_hits(
                (
                    Hit(hit.ref, scores[query, hit.ref], FirstStage(rank, hit.score))
                    for rank, hit in enumerate(hits, start=1)
                ),
                top_k,
            )
            for query, hits in zip(queries, found, strict=True)
        ]

    def open(self) -> Reranker:
        """Return the model; it is read once."""
        with self._opening:
            if self._reranker is None:
                self._reranker = self._make()
            return self._reranker

    def _scores(self, pairs: Sequence[_Pair]) -> dict[_Pair, float]:
        """Return the score of each pair, known ones from memory."""
        with self._lock:
            found = {pair: self._known[pair] for pair in pairs if pair in self._known}
        new = [pair for pair in dict.fromkeys(pairs) if pair not in found]
        if new:
            scores = self.open().score([(query, self._store.page(ref)) for query, ref in new])
            made = dict(zip(new, scores, strict=True))
            found |= made
            with self._lock:
                for pair, score in made.items():
                    if self._config.cached:
                        self._known[pair] = score
        return found


@dataclass(frozen=True, slots=True)
class _Open:
    """Opens the model of a section where it says."""

    config: RerankConfig
    spec: RerankerSpec
    key: str

    def __call__(self) -> Reranker:
        # when it is used: it brings torch and a model along
        config = self.config
        if config.endpoint is not None:
            from docagent_rl.retrieval.rerank.served import ServedReranker

            return ServedReranker(self.spec, config.endpoint, batch_size=config.batch_size, named=self.key)
        from docagent_rl.retrieval.rerank.local import open_local

        options = config.model_dump(include={"device", "batch_size", "threads"})
        return open_local(self.spec, named=self.key, **options)


def reranked(
    retriever: Retriever, config: RetrieverConfig, store: DocumentStore, key: str = KEY, *, late: bool = False
) -> Retriever:
    """Return the retriever, with the reranker of its configuration if it has one.

    `late`: the model is opened with the first search, and not before.

    Raises:
        UserError: there is no such model, or it cannot be read.
        InfrastructureError: its server does not answer.
    """
    section = config.rerank
    if section is None:
        return retriever
    key = f"{key}.rerank"
    spec = named_reranker(section.model, f"{key}.model")
    if section.checkpoint is not None:
        spec = spec.model_copy(update={"model": section.checkpoint, "revision": None})
    found = RerankedRetriever(retriever, store, section, spec, _Open(section, spec, key))
    if not late:
        found.open()
    return found
