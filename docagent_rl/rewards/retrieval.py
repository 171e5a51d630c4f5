"""Rewards for the pages that were shown, and for their order."""

import math
from collections.abc import Hashable, Iterable


def ndcg(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> float:
    """Return the normalised discounted cumulative gain of the pages shown, in [0, 1] (VRAG-RL).

    `DCG = sum_i (2^s_i - 1) / log2(i + 1)` with `s_i = 1` when the i-th page shown is gold and 0
    otherwise, divided by the same sum over |G| gold pages in a row. The ideal runs over all gold
    pages, also when there are more of them than a trajectory can show. Repetitions are skipped and
    take no rank; 0 when nothing was shown or nothing is gold.
    """
    wanted = set(gold)
    if not wanted:
        return 0.0
    ranks = [rank for rank, page in enumerate(dict.fromkeys(shown), start=1) if page in wanted]
    return gain(ranks) / gain(range(1, len(wanted) + 1))


def gain(ranks: Iterable[int]) -> float:
    """Return the gain of relevant items at ranks from 1, discounted: the sum of
    `1 / log2(rank + 1)`.
    """
    return math.fsum(1.0 / math.log2(rank + 1) for rank in ranks)


def recall(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> float | None:
    """Return the share of the gold pages that were shown; `None`, for no average, when nothing is
    gold.
    """
    wanted = set(gold)
    return len(wanted.intersection(shown)) / len(wanted) if wanted else None


def navigation(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> dict[str, float]:
    """Return `recall`, `precision` and `f1` of the pages of one trajectory (ALDEN, Eq. 9 to 11).

    Each in `[0, 1]`; all 0 when no page was shown; none of them, for no average, when nothing is
    gold.
    """
    pages = set(shown)
    wanted = set(gold)
    if not wanted:
        return {}
    common = len(pages & wanted)
    precision = common / len(pages) if pages else 0.0
    f1 = 2 * common / (len(pages) + len(wanted))
    return {"recall": common / len(wanted), "precision": precision, "f1": f1}
