"""Recall and reciprocal rank of ranked pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from docagent_rl.documents import PageRef


def recall_at(ranked: Sequence[PageRef], evidence: Collection[PageRef], k: int) -> float:
    """The share of the evidence pages that are among the first `k`.

    Raises:
        ValueError: There is no evidence, or `k` is less than 1.
    """
    if not evidence or k < 1:
        raise ValueError("recall needs evidence pages and k from 1")
    return len(set(ranked[:k]) & set(evidence)) / len(set(evidence))


def reciprocal_rank(ranked: Sequence[PageRef], evidence: Collection[PageRef]) -> float:
    """1 over the rank of the first evidence page; 0 where there is none."""
    return next((1 / rank for rank, ref in enumerate(ranked, start=1) if ref in evidence), 0.0)
