"""Rankings against graded relevance: ViDoRe V3 (arXiv 2601.08620), as MTEB computes it."""

import math
from collections.abc import Hashable, Mapping, Sequence

CUTOFF = 10
"""Pages of a ranking that ViDoRe V3 counts."""


def graded_ndcg(
    grades: Mapping[Hashable, float], ranked: Sequence[Hashable], cutoff: int = CUTOFF
) -> float | None:
    """Return nDCG at a cut-off, in `[0, 1]`; `None` where nothing is relevant, for no average.

    `DCG = sum_i g_i / log2(i + 1)` over the first `cutoff` ranks `i`, with the grade itself as
    gain, divided by that of the best order of all relevant items: `ndcg_cut` of trec_eval, by which
    MTEB (`mteb/_evaluators/retrieval_metrics.py`) has `ndcg_at_10`. An item that is ranked again
    takes no rank.

    Args:
        grades: grades by item; those of 0 or less are not relevant.
        ranked: items, the best first.
        cutoff: ranks that count, from 1.
    """
    wanted = {item: grade for item, grade in grades.items() if grade > 0}
    best = _gain(sorted(wanted.values(), reverse=True)[:cutoff])
    if not best:
        return None
    distinct = list(dict.fromkeys(ranked))[:cutoff]
    return _gain([wanted.get(item, 0.0) for item in distinct]) / best


def _gain(grades: Sequence[float]) -> float:
    return math.fsum(grade / math.log2(rank + 1) for rank, grade in enumerate(grades, start=1))
