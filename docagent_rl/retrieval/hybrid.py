"""Several retrievers as one: their rankings are joined by reciprocal rank or by weighted scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, Retriever, best_hits, check_queries
from docagent_rl.retrieval.config import Fusion


class HybridRetriever:
    """A `Retriever` over others.

    Each part is asked for `depth` pages, or for as many as the search asks for where that is more. A page
    that some parts do not rank gets nothing of those. Parts are searched side by side: the answer takes as
    long as the slowest.

    Args:
        parts: at least one, by name.
        fusion: how rankings are joined.
        rrf_k: of reciprocal ranks.
        weights: of parts, by name; those left out weigh 1, those of weight 0 are not asked.
        depth: pages that each part ranks, at least.

    Raises:
        UserError: there is no part, or all weigh 0.
    """

    def __init__(
        self,
        parts: Mapping[str, Retriever],
        *,
        fusion: Fusion = Fusion.RRF,
        rrf_k: int = 60,
        weights: Mapping[str, float] | None = None,
        depth: int = 50,
    ) -> None:
        given = weights or {}
        asked = {name: part for name, part in parts.items() if given.get(name, 1.0) > 0}
        if not asked:
            raise UserError("docagent.retriever: a hybrid needs parts, and one of them a weight above 0")
        self._parts = asked
        self._weights = {name: given.get(name, 1.0) for name in asked}
        self._fusion, self._rrf_k, self._depth = fusion, rrf_k, depth
        # threads that all searches of the process share; they start when they are needed
        self._workers = ThreadPoolExecutor(4 * len(asked), thread_name_prefix="hybrid")

    def __eq__(self, other: object) -> bool:
        """Return whether both join equal parts alike."""
        return self._identity == other._identity if isinstance(other, HybridRetriever) else NotImplemented

    def __hash__(self) -> int:
        return hash((self._fusion, self._rrf_k, self._depth, tuple(sorted(self._weights.items()))))

    @property
    def _identity(self) -> tuple[object, ...]:
        return self._parts, self._weights, self._fusion, self._rrf_k, self._depth

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """See `Retriever.search`; a score is a sum over parts, and comparable within one answer only."""
        check_queries(queries, top_k)
        if not queries:
            return []
        excluded = frozenset(exclude)

        def ask(part: Retriever) -> list[list[Hit]]:
            return part.search(queries, doc_id=doc_id, top_k=max(self._depth, top_k), exclude=excluded)

        answers = dict(zip(self._parts, self._ask_all(ask), strict=True))
        return [
            self._joined({name: hits[n] for name, hits in answers.items()}, top_k)
            for n in range(len(queries))
        ]

    def _ask_all(self, ask: Callable[[Retriever], list[list[Hit]]]) -> list[list[list[Hit]]]:
        parts = list(self._parts.values())
        futures = [self._workers.submit(ask, part) for part in parts[1:]]
        first = ask(parts[0])
        return [first, *(future.result() for future in futures)]

    def _joined(self, rankings: Mapping[str, Sequence[Hit]], top_k: int) -> list[Hit]:
        if self._fusion is Fusion.RRF:
            scores = reciprocal_ranks(rankings, self._weights, self._rrf_k)
        else:
            scores = weighted_scores(rankings, self._weights)
        return best_hits((Hit(*pair) for pair in scores.items()), top_k)


def reciprocal_ranks(
    rankings: Mapping[str, Sequence[Hit]], weights: Mapping[str, float], k: int = 60
) -> dict[PageRef, float]:
    """Score by reciprocal rank fusion: the sum over rankings of `weight / (k + rank)`, ranks from 1.

    Cormack, Clarke and Buettcher, SIGIR 2009, section 2, with k = 60; weights are 1 there. Pages of equal
    score have the ranks of their places, which are those of `PageRef` (`Retriever.search`).

    Args:
        rankings: best first, by the name of the part.
        weights: by name; those left out weigh 1.
        k: the larger, the less the first ranks stand out.
    """
    scores: defaultdict[PageRef, float] = defaultdict(float)
    for name in sorted(rankings):
        for rank, hit in enumerate(rankings[name], 1):
            scores[hit.ref] += weights.get(name, 1.0) / (k + rank)
    return dict(scores)


def weighted_scores(
    rankings: Mapping[str, Sequence[Hit]], weights: Mapping[str, float]
) -> dict[PageRef, float]:
    """Sum over rankings `weight * (score - lowest) / (highest - lowest)`, of a ranking's own scores.

    A page that a ranking lacks gets nothing of it, as its last one does; where all scores of a ranking are
    equal, each is 1.

    Args:
        rankings: best first, by the name of the part.
        weights: by name; those left out weigh 1.
    """
    scores: defaultdict[PageRef, float] = defaultdict(float)
    for name in sorted(rankings):
        hits, weight = rankings[name], weights.get(name, 1.0)
        values = [hit.score for hit in hits]
        low, high = (min(values), max(values)) if values else (0.0, 0.0)
        for hit in hits:
            scores[hit.ref] += weight * ((hit.score - low) / (high - low) if high > low else 1.0)
    return dict(scores)
