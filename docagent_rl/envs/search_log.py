"""The searches of a trajectory and their metrics: recall, ranks, novelty of queries."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Any

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import measured
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.tokens import Tokenizer

CUTS = (1, 5)
"""Depths at which recall is measured, in addition to the requested number of hits."""
_notes: ContextVar[list[SearchNote] | None] = ContextVar("docagent_searches", default=None)


@dataclass(frozen=True, slots=True)
class SearchNote:
    """One search with its hits, the best first.

    Args:
        retriever: `retriever` or `text_retriever`.
        doc_id: id of the document that was searched; `None` for the whole corpus.
        exclude: pages that were excluded.
        seconds: latency of the search, including the wait for a free slot.
        tries: number of requests; 0 for a cached result.
        refused: why the service rejected the query; `None` if it did not.
    """

    retriever: str
    query: str
    doc_id: str | None
    top_k: int
    exclude: frozenset[PageRef]
    hits: Sequence[Hit]
    seconds: float
    tries: int = 1
    refused: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary for the trajectory, with hits as `[page, score]`.

        If the hits were reranked, `first_stage` has the `[rank, score]` of each hit before that.
        """
        before = [hit.first_stage for hit in self.hits if hit.first_stage is not None]
        first = (
            {"first_stage": [[each.rank, float(each.score)] for each in before]} if before else {}
        )
        return {
            "retriever": self.retriever,
            "query": self.query,
            "doc_id": self.doc_id,
            "top_k": self.top_k,
            "excluded": len(self.exclude),
            "hits": [[str(hit.ref), float(hit.score)] for hit in self.hits],
            **first,
            "seconds": round(self.seconds, 6),
            "tries": self.tries,
            "refused": self.refused,
        }

    def recall(self, gold: Collection[PageRef], depth: int) -> float | None:
        """Return the share of reachable gold pages in the top hits; `None` if none is reachable."""
        wanted = self._reachable(gold)
        return (
            len(wanted & {hit.ref for hit in self.hits[:depth]}) / len(wanted) if wanted else None
        )

    def reciprocal_rank(self, gold: Collection[PageRef]) -> float | None:
        """Return 1 / rank of the first gold page, or 0; `None` if no gold page is reachable."""
        wanted = self._reachable(gold)
        if not wanted:
            return None
        ranks = (rank for rank, hit in enumerate(self.hits, start=1) if hit.ref in wanted)
        return 1.0 / next(ranks, float("inf"))

    def _reachable(self, gold: Collection[PageRef]) -> set[PageRef]:
        return {
            ref for ref in gold if ref not in self.exclude and self.doc_id in (None, ref.doc_id)
        }


@contextmanager
def noting() -> Generator[list[SearchNote]]:
    """Collect the searches of the current task and of the tasks that it starts."""
    notes: list[SearchNote] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note_search(note: SearchNote) -> None:
    """Record a search if searches are being collected (`noting`)."""
    notes = _notes.get()
    if notes is not None:
        notes.append(note)


def search_metrics(
    turns: Mapping[int, Sequence[SearchNote]], gold: Collection[PageRef]
) -> dict[str, float]:
    """Return the metrics of a trajectory's searches, named `<retriever>/<name>`.

    - `searches`: the number of searches.
    - `recall` at the requested depth, `recall@1`, `recall@5` and `mrr`: means over the searches
      that could find a gold page; a page that is excluded or in another document is not reachable.
    - `turn_recall/<turn>`: the recall of each turn.
    - `empty`: the share of searches without hits.
    - `novelty`: the share of queries that differ in their words from all earlier ones.
    - `refused`, `cached`, `retries`: counts.
    """
    by_retriever: dict[str, dict[int, list[SearchNote]]] = {}
    for turn, notes in turns.items():
        for note in notes:
            by_retriever.setdefault(note.retriever, {}).setdefault(turn, []).append(note)
    found: dict[str, float] = {}
    for name, own in by_retriever.items():
        numbers = measured(_retriever_metrics(own, gold))
        found |= {f"{name}/{key}": value for key, value in numbers.items()}
    return found


def _retriever_metrics(
    turns: Mapping[int, Sequence[SearchNote]], gold: Collection[PageRef]
) -> dict[str, float | None]:
    """Return the metrics of the searches of one retriever; see `search_metrics`."""
    notes = list(chain.from_iterable(turns.values()))
    numbers: dict[str, float | None] = {
        "searches": float(len(notes)),
        "recall": mean_known([note.recall(gold, note.top_k) for note in notes]),
    }
    for cut in CUTS:
        numbers[f"recall@{cut}"] = mean_known([note.recall(gold, cut) for note in notes])
    tokenizer = Tokenizer()
    different_queries = {frozenset(tokenizer(note.query)) for note in notes}
    numbers |= {
        "mrr": mean_known([note.reciprocal_rank(gold) for note in notes]),
        "empty": fmean(not note.hits for note in notes),
        "refused": float(sum(note.refused is not None for note in notes)),
        "cached": float(sum(note.tries == 0 for note in notes)),
        "retries": float(sum(max(0, note.tries - 1) for note in notes)),
        "novelty": len(different_queries) / len(notes),
    }
    for turn, own in turns.items():
        numbers[f"turn_recall/{turn}"] = mean_known([note.recall(gold, note.top_k) for note in own])
    return numbers


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are not `None`; `None` if all are."""
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
