"""Rewards for which pages were shown, and in what order."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable


def ndcg(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> float:
    """Normalised discounted cumulative gain of the pages an episode was shown (VRAG-RL, retrieval reward).

    `DCG = sum_i (2^s_i - 1) / log2(i + 1)` with `s_i = 1` when the i-th page shown is gold and 0 otherwise,
    divided by the same sum over |G| gold pages in a row. The ideal runs over all gold pages, also when there
    are more of them than an episode can show.

    Args:
        shown: pages in the order they were first shown; repetitions are skipped and take no rank.
        gold: gold pages; repetitions are ignored.

    Returns:
        A value in `[0, 1]`; 0 when nothing was shown or nothing is gold.
    """
    wanted = set(gold)
    if not wanted:
        return 0.0
    gains = [_discount(rank) for rank, page in enumerate(dict.fromkeys(shown), start=1) if page in wanted]
    ideal = [_discount(rank) for rank in range(1, len(wanted) + 1)]
    return math.fsum(gains) / math.fsum(ideal)


def recall(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> float:
    """Share of the gold pages that were shown, in `[0, 1]`; 0 when nothing is gold."""
    wanted = set(gold)
    return len(wanted.intersection(shown)) / len(wanted) if wanted else 0.0


def _discount(rank: int) -> float:
    return 1.0 / math.log2(rank + 1)
