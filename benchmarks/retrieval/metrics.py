"""Compute recall and reciprocal rank of ranked pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from docagent_rl.documents import PageRef


def recall_at(ranked: Sequence[PageRef], evidence: Collection[PageRef], k: int) -> float:
    """Return the share of the evidence pages that are among the first `k`.

    Raises:
        ValueError: there is no evidence, or `k` is less than 1.
    """
    if not evidence or k < 1:
        raise ValueError("recall needs evidence pages and k from 1")
    return len(set(ranked[:k]) & set(evidence)) / len(set(evidence))


def reciprocal_rank(ranked: Sequence[PageRef], evidence: Collection[PageRef]) -> float:
    """Return 1 over the rank of the first evidence page, or 0 if none is ranked."""
    return next((1 / rank for rank, ref in enumerate(ranked, start=1) if ref in evidence), 0.0)
