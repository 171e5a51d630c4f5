"""The searches of a trajectory, and the numbers that follow: recall, ranks, novelty of queries."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from docagent_rl.documents import PageRef
from docagent_rl.envs.base import measured
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.tokens import Tokenizer

CUTS = (1, 5)
"""Ranks down to which recall is measured, beside all that were asked for."""
_notes: ContextVar[list[SearchNote] | None] = ContextVar("docagent_searches", default=None)


@dataclass(frozen=True, slots=True)
class SearchNote:
    """One search, its hits best first.

    Args:
        retriever: `retriever` or `text_retriever`.
        doc_id: of the only document that was searched.
        exclude: pages that were to be left out.
        seconds: until the answer was there, waiting for a turn included.
        tries: requests; 0 for an answer that was known.
        refused: why the service did not take the query, if it did not.
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
        """Return a JSON-ready dictionary for the trajectory; hits as `[page, score]`.

        Where they were reranked, `first_stage` has `[rank, score]` of each hit among the
        candidates.
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
        """Return the share of the gold pages within reach among the first hits; `None`: none is."""
        wanted = self._reachable(gold)
        return (
            len(wanted & {hit.ref for hit in self.hits[:depth]}) / len(wanted) if wanted else None
        )

    def reciprocal_rank(self, gold: Collection[PageRef]) -> float | None:
        """Return 1 / rank of the first gold page, 0 where none was found; None: none could be."""
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
    """Collect the searches of this task, and of those that it starts."""
    notes: list[SearchNote] = []
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


def note_search(note: SearchNote) -> None:
    """Keep a search where somebody collects them."""
    notes = _notes.get()
    if notes is not None:
        notes.append(note)


def search_metrics(
    turns: Mapping[int, Sequence[SearchNote]], gold: Collection[PageRef]
) -> dict[str, float]:
    """Return numbers of a trajectory's searches, `<retriever>/<name>`.

    `searches`; `recall` at the depth that was asked for, `recall@1`, `recall@5` and `mrr`, each the
    mean over the searches that could find a gold page (one that is excluded, or in another
    document, cannot be found); `turn_recall/<turn>`; `empty`, the share without hits; `novelty`,
    the share of queries that no earlier one equals in its words; `refused`, `cached` and `retries`,
    counts.
    """
    names = dict.fromkeys(note.retriever for notes in turns.values() for note in notes)
    found: dict[str, float] = {}
    for name in names:
        own = {
            turn: [note for note in notes if note.retriever == name]
            for turn, notes in turns.items()
        }
        notes = [note for each in own.values() for note in each]
        words = [frozenset(tokens) for tokens in map(Tokenizer(), (note.query for note in notes))]
        numbers: dict[str, float | None] = {
            "searches": float(len(notes)),
            "recall": mean_known([note.recall(gold, note.top_k) for note in notes]),
            **{
                f"recall@{cut}": mean_known([note.recall(gold, cut) for note in notes])
                for cut in CUTS
            },
            "mrr": mean_known([note.reciprocal_rank(gold) for note in notes]),
            "empty": fmean(not note.hits for note in notes),
            "refused": float(sum(note.refused is not None for note in notes)),
            "cached": float(sum(note.tries == 0 for note in notes)),
            "retries": float(sum(max(0, note.tries - 1) for note in notes)),
            "novelty": len(set(words)) / len(words),
        }
        for turn, each in own.items():
            numbers[f"turn_recall/{turn}"] = mean_known(
                [note.recall(gold, note.top_k) for note in each]
            )
        found |= {f"{name}/{key}": value for key, value in measured(numbers).items()}
    return found


def mean_known(values: Sequence[float | None]) -> float | None:
    """Return the mean of the values that are known; `None`: none is."""
    there = [value for value in values if value is not None]
    return fmean(there) if there else None
