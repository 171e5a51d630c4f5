"""Rankings against graded relevance: ViDoRe V3 (arXiv 2601.08620), as MTEB computes it."""

import math
from collections.abc import Hashable, Mapping, Sequence

CUTOFF = 10
"""Number of a ranking's pages that count in ViDoRe V3."""


def graded_ndcg(
    grades: Mapping[Hashable, float], ranked: Sequence[Hashable], cutoff: int = CUTOFF
) -> float | None:
    """Return nDCG at a cut-off, in `[0, 1]`; `None` if nothing is relevant, to be left out of
    averages.

    `DCG = sum_i g_i / log2(i + 1)` over the first `cutoff` ranks `i`, with the grade itself as the
    gain, divided by the DCG of the best order of all relevant items: `ndcg_cut` of trec_eval, from
    which MTEB (`mteb/_evaluators/retrieval_metrics.py`) takes `ndcg_at_10`. A repeated item takes
    no rank.

    Args:
        grades: grades by item; items graded 0 or less are not relevant.
        ranked: items, the best first.
        cutoff: number of ranks that count, from the first.
    """
    wanted = {item: grade for item, grade in grades.items() if grade > 0}
    best = _gain(sorted(wanted.values(), reverse=True)[:cutoff])
    if not best:
        return None
    distinct = list(dict.fromkeys(ranked))[:cutoff]
    return _gain([wanted.get(item, 0.0) for item in distinct]) / best


def _gain(grades: Sequence[float]) -> float:
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))
