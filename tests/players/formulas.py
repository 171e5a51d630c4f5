"""The formulas of the papers, written again plainly and slowly; nothing here imports a reward."""

import math
import string
from collections import Counter
from collections.abc import Collection, Hashable, Sequence

Box = Sequence[float]


def ndcg(shown: Sequence[Hashable], gold: Collection[Hashable]) -> float:
    """Return the DCG of the pages in the order shown, divided by that of all gold pages in the
    first places; 0 without gold pages.
    """
    gain = sum(1 / math.log2(place + 1) for place, page in enumerate(shown, 1) if page in gold)
    most = sum(1 / math.log2(place + 1) for place in range(1, len(gold) + 1))
    return gain / most if most else 0.0


def by_rank(searches: Sequence[Sequence[Hashable]]) -> list[Hashable]:
    """Return all first candidates, then all second ones, and so on, each page once."""
    order: list[Hashable] = []
    for rank in range(3):
        for candidates in searches:
            if rank < len(candidates) and candidates[rank] not in order:
                order.append(candidates[rank])
    return order


def iou(a: Box, b: Box) -> float:
    """Return the common area divided by the joint area."""
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    joint = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - wide * high
    return wide * high / joint if joint > 0 else 0.0


def bag_f1(given: Sequence[str], wanted: Sequence[str]) -> float:
    """Return the F1 of two bags, by crossing off."""
    left, common = list(wanted), 0
    for item in given:
        if item in left:
            left.remove(item)
            common += 1
    if not common:
        return 0.0
    precision, recall = common / len(given), common / len(wanted)
    return 2 * precision * recall / (precision + recall)


def plain(text: str) -> str:
    """Return a text in lower case, without ASCII punctuation and articles, with single blanks."""
    kept = "".join(mark for mark in text.lower() if mark not in string.punctuation)
    return " ".join(word for word in kept.split() if word not in ("a", "an", "the"))


def char_f1(given: str, wanted: str) -> float:
    """Return ALDEN's answer score as published."""
    return bag_f1([*plain(given).replace(" ", "")], [*plain(wanted).replace(" ", "")])


def word_f1(given: str, wanted: str) -> float:
    """Return ALDEN's answer score as released."""
    return bag_f1(plain(given).split(), plain(wanted).split())


def repetition(
    query: Sequence[str], earlier: Sequence[Sequence[str]], n: int = 3, *, nearest: bool = True
) -> tuple[float, tuple[float, ...]]:
    """Return ALDEN's repetition of queries: the similarity to the nearest query by n-grams, or else
    by shorter ones.

    As published by the Jaccard index, and words answer for what they share with the nearest; as
    released by the share of the query's n-grams, and words answer for what they share with any.

    Returns:
        The likeness, and the part of each word in it.
    """
    for size in range(min(n, len(query)), 0, -1):
        grams = [tuple(query[i : i + size]) for i in range(len(query) - size + 1)]
        others = [{tuple(q[i : i + size]) for i in range(len(q) - size + 1)} for q in earlier]
        best, charged = 0.0, set()
        for other in others:
            value = len(set(grams) & other) / len(set(grams) | other if nearest else set(grams))
            if value > best:
                best, charged = value, other
        if best:
            charged = charged if nearest else set().union(*others)
            counts = Counter(
                u for i, g in enumerate(grams) if g in charged for u in range(i, i + size)
            )
            return best, tuple(counts[u] / counts.total() for u in range(len(query)))
    return 0.0, (0.0,) * len(query)


def page_f(listed: Collection[int], gold: Collection[int], visited: Collection[int]) -> float:
    """Return Doc-V*'s evidence score, an F measure with twice the weight on recall."""
    if not listed or not gold:
        return float(not listed and not gold)
    hits = sum(page in gold and page in visited for page in set(listed))
    return 3 * hits / (2 * len(gold) + len(set(listed)))
