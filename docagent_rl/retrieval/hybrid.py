"""A hybrid of several retrievers, by a convex combination of their scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, Pages, Retriever, best_hits, check_queries


@dataclass(frozen=True, slots=True)
class HybridPart:
    """A retriever of a hybrid, and the weight of its scores, above 0."""

    retriever: Retriever
    weight: float = 1.0


class HybridRetriever:
    """A `Retriever` that combines the scores of others (`combined`).

    Each part ranks `depth` pages, or `top_k` pages if that is more.
    """

    def __init__(self, parts: Mapping[str, HybridPart], *, depth: int = 200) -> None:
        self._parts = parts
        self._depth = depth

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `Retriever.search`; a score is a weighted mean over the parts, from 0 to 1."""
        check_queries(queries, top_k)
        if not queries:
            return []
        depth = max(self._depth, top_k)
        excluded = frozenset(exclude)
        # in the order of their names, so that sums are the same to the last bit
        parts = [self._parts[name] for name in sorted(self._parts)]
        found = [
            part.retriever.search(queries, doc_id=doc_id, top_k=depth, exclude=excluded)
            for part in parts
        ]
        weights = [part.weight for part in parts]
        return [
            best_hits(starmap(Hit, combined(rankings, weights, depth).items()), top_k)
            for rankings in zip(*found, strict=True)
        ]


def combined(
    rankings: Sequence[Sequence[Hit]], weights: Sequence[float], depth: int
) -> dict[PageRef, float]:
    """Return the weighted mean of each page's scores, each normalised to [0, 1].

    The convex combination of Bruch, Gai and Ingber (TOIS 2023, equation 1), which was better than
    reciprocal rank fusion there and here (docs/retrieval.md): unlike ranks, scores keep the
    distance of one page to the next. Each score is divided by the best one of its ranking, after a
    shift if some are negative. A page that is missing from a ranking gets 0 or, if the ranking was
    cut off at `depth`, the score of its last page.
    """
    scores = dict.fromkeys((hit.ref for ranking in rankings for hit in ranking), 0.0)
    for ranking, weight in zip(rankings, weights, strict=True):
        own = dict(zip((hit.ref for hit in ranking), _normalised(ranking), strict=True))
        absent = min(own.values(), default=0.0) if len(ranking) == depth else 0.0
        for ref in scores:
            scores[ref] += own.get(ref, absent) * weight / sum(weights)
    return scores


def _normalised(ranking: Sequence[Hit]) -> Iterator[float]:
    """Yield the scores of a ranking, sorted from best to worst, normalised to [0, 1]."""
    if not ranking:
        return
    best = ranking[0].score
    lowest = min(0.0, ranking[-1].score)
    for hit in ranking:
        yield (hit.score - lowest) / (best - lowest) if best > lowest else 1.0
