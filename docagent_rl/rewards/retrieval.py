"""Retrieval rewards: NDCG, recall, precision and F1 of the pages shown."""

import math
from collections.abc import Hashable, Iterable


def ndcg(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> float:
    """Return the normalised discounted cumulative gain of the pages shown, in [0, 1] (VRAG-RL).

    `DCG = sum_i (2^s_i - 1) / log2(i + 1)` with `s_i = 1` if the i-th page shown is gold and 0
    otherwise, divided by the DCG of an ideal ranking of |G| gold pages. The ideal ranking contains
    all gold pages, even if a trajectory cannot show that many. Repeated pages are skipped and take
    no rank. The value is 0 if no page was shown or there are no gold pages.
    """
    wanted = set(gold)
    if not wanted:
        return 0.0
    ranks = [rank for rank, page in enumerate(dict.fromkeys(shown), start=1) if page in wanted]
    return gain(ranks) / gain(range(1, len(wanted) + 1))


def gain(ranks: Iterable[int]) -> float:
    """Return the DCG of relevant items at 1-based ranks: the sum of `1 / log2(rank + 1)`."""
    return math.fsum(1.0 / math.log2(rank + 1) for rank in ranks)


def recall(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> float | None:
    """Return the share of gold pages that were shown.

    The value is `None` if there are no gold pages, so that it enters no average.
    """
    wanted = set(gold)
    return len(wanted.intersection(shown)) / len(wanted) if wanted else None


def navigation(shown: Iterable[Hashable], gold: Iterable[Hashable]) -> dict[str, float]:
    """Return `recall`, `precision` and `f1` of the pages of one trajectory (ALDEN, Eq. 9 to 11).

    Each is in `[0, 1]`, and 0 if no page was shown. The mapping is empty if there are no gold
    pages, so that the trajectory enters no average.
    """
    pages = set(shown)
    wanted = set(gold)
    if not wanted:
        return {}
    common = len(pages & wanted)
    precision = common / len(pages) if pages else 0.0
    f1 = 2 * common / (len(pages) + len(wanted))
    return {"recall": common / len(wanted), "precision": precision, "f1": f1}
