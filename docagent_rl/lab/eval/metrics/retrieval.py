"""Rankings: recall, hit rate, nDCG and reciprocal rank by pytrec_eval, and VRAG-RL's nDCG.

pytrec_eval knows no item that is ranked twice. ViDoSeek's scorer counts each occurrence, so that its nDCG can
exceed 1; what the library counts once is completed here. Agents show pages again: take `distinct` first.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence

from docagent_rl.rewards import retrieval
from docagent_rl.rewards.retrieval import gain

CUTOFFS = (1, 5, 10, None)
"""Of ViDoSeek's table; `None` is the whole list."""


def recall_at_k(gold: Collection[Hashable], ranked: Sequence[Hashable], k: int | None = None) -> float | None:
    """Share of the distinct gold items among the first k.

    Args:
        gold: gold items; repetitions are ignored.
        ranked: items from the best one down.
        k: how many count; `None` is all.

    Returns:
        A value in `[0, 1]`; `None` when nothing is gold: such questions are left out of means and counted.

    Raises:
        ValueError: k is less than 1.
    """
    return _measured("recall", gold, ranked, k)


def hit_at_k(gold: Collection[Hashable], ranked: Sequence[Hashable], k: int | None = None) -> float | None:
    """1 when some gold item is among the first k, else 0; see `recall_at_k`."""
    return _measured("success", gold, ranked, k)


def mrr_at_k(gold: Collection[Hashable], ranked: Sequence[Hashable], k: int | None = None) -> float | None:
    """1 / rank of the first gold item among the first k, or 0; see `recall_at_k`."""
    return _measured("recip_rank", gold, ranked[: _cut(ranked, k)], k)


def ndcg_at_k(gold: Collection[Hashable], ranked: Sequence[Hashable], k: int | None = None) -> float | None:
    """Normalised discounted cumulative gain of the first k with binary relevance (ViDoSeek).

    Gain is the sum of `1 / log2(rank + 1)` over gold ranks, divided by the same sum over the first
    `min(k, number of distinct gold items)` ranks. A gold item that is ranked again gains again.

    Returns:
        A value in `[0, 1]` for distinct items; above 1 it can only be with repetitions. See `recall_at_k`.
    """
    once = _measured("ndcg_cut", gold, ranked, k)
    cut = _cut(ranked, k)
    wanted, seen, again = set(gold), set(), []
    for rank, item in enumerate(ranked[:cut], start=1):
        if item in seen and item in wanted:
            again.append(rank)
        seen.add(item)
    return (
        once if once is None or not again else once + gain(again) / gain(range(1, min(cut, len(wanted)) + 1))
    )


def ndcg(ranked: Sequence[Hashable], gold: Collection[Hashable], dedupe: bool = False) -> float:
    """VRAG-RL's form: no cut-off, and an ideal over all gold items.

    Args:
        ranked: items from the best one down.
        gold: gold items.
        dedupe: repeated items take no rank and gain once, and repeated gold items are one, as in the reward
            of this package; else each occurrence counts, as in the released code.

    Returns:
        0 when nothing was retrieved or nothing is gold; in `[0, 1]` for distinct items.
    """
    wanted = set(gold)
    if dedupe or not wanted:
        return retrieval.ndcg(ranked, wanted)
    return gain(rank for rank, item in enumerate(ranked, start=1) if item in wanted) / gain(
        range(1, len(gold) + 1)
    )


def distinct(ranked: Iterable[Hashable]) -> list[Hashable]:
    """The items in the order in which they first come."""
    return list(dict.fromkeys(ranked))


def ranking_scores(
    gold: Collection[Hashable], ranked: Sequence[Hashable], cutoffs: Sequence[int | None] = CUTOFFS
) -> dict[str, float | None]:
    """All four numbers at every cut-off: `recall@1`, `hit@1`, `ndcg@1`, `mrr@1`, ..., `mrr@all`."""
    measures = {"recall": recall_at_k, "hit": hit_at_k, "ndcg": ndcg_at_k, "mrr": mrr_at_k}
    return {
        f"{name}@{'all' if k is None else k}": measure(gold, ranked, k)
        for k in cutoffs
        for name, measure in measures.items()
    }


def _cut(ranked: Sequence[Hashable], k: int | None) -> int:
    if k is not None and k < 1:
        raise ValueError(f"a cut-off is at least 1, found {k}")
    return len(ranked) if k is None else k


def _measured(
    measure: str, gold: Collection[Hashable], ranked: Sequence[Hashable], k: int | None
) -> float | None:
    cut = _cut(ranked, k)
    wanted = set(gold)
    if not wanted or not ranked:
        return 0.0 if wanted else None
    # loads a compiled module
    import pytrec_eval

    # places stand for items, so that a repeated item keeps all its ranks and is gold at the first of them
    first = {item: place for place, item in reversed(list(enumerate(ranked)))}
    relevant = {str(first.get(item, -1 - number)): 1 for number, item in enumerate(wanted)}
    # scores that fall strictly: ties would be broken by name
    scores = {str(place): float(len(ranked) - place) for place in range(len(ranked))}
    asked = measure if measure == "recip_rank" else f"{measure}.{cut}"
    found = pytrec_eval.RelevanceEvaluator({"": relevant}, {asked}).evaluate({"": scores})
    return next(iter(found[""].values()))
