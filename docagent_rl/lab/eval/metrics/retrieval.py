"""Pages against evidence: as a set (ALDEN), and as a ranking (ViDoSeek)."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import asdict

from docagent_rl.rewards.retrieval import gain, navigation

CUTOFFS = (1, 5, 10, None)
"""Cut-offs of ViDoSeek's table; `None` is the whole list."""


def page_numbers(gold: Collection[Hashable], pred: Collection[Hashable]) -> dict[str, float | None]:
    """Return `recall`, `precision` and `f1` of collected pages, each in `[0, 1]`; all `None` without gold."""
    score = navigation(pred, gold)
    return dict.fromkeys(("recall", "precision", "f1")) if score is None else asdict(score)


def ranking_scores(
    gold: Collection[Hashable], ranked: Sequence[Hashable], cutoffs: Sequence[int | None] = CUTOFFS
) -> dict[str, float | None]:
    """Return recall, hit rate, nDCG and reciprocal rank at every cut-off (ViDoRAG, `overall_evaluator.py`).

    Gain is the sum of `1 / log2(rank + 1)` over gold ranks, divided by the same sum over the first
    `min(k, number of distinct gold items)` ranks. A gold item that is ranked again gains again, so that nDCG
    exceeds 1 with repetitions.

    Args:
        gold: gold items; repetitions are ignored.
        ranked: items from the best one down.
        cutoffs: how many of them count.

    Returns:
        `recall@1`, `hit@1`, `ndcg@1`, `mrr@1`, ..., `mrr@all`; `None` where nothing is gold.
    """
    found: dict[str, float | None] = {}
    for k in cutoffs:
        for name, value in _scores_at(set(gold), ranked, len(ranked) if k is None else k).items():
            found[f"{name}@{'all' if k is None else k}"] = value
    return found


def _scores_at(wanted: set[Hashable], ranked: Sequence[Hashable], cut: int) -> dict[str, float | None]:
    if not wanted:
        return dict.fromkeys(("recall", "hit", "ndcg", "mrr"))
    ranks = [rank for rank, item in enumerate(ranked[:cut], start=1) if item in wanted]
    ideal = gain(range(1, min(cut, len(wanted)) + 1))
    return {
        "recall": len(wanted.intersection(ranked[:cut])) / len(wanted),
        "hit": float(bool(ranks)),
        "ndcg": gain(ranks) / ideal if ideal else 0.0,
        "mrr": 1 / ranks[0] if ranks else 0.0,
    }
