"""Agreement of two judges: raw, and Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two judges agree.

    Args:
        raw: share of equal verdicts; `None` where nothing was judged by both.
        kappa: Cohen's, `(raw - chance) / (1 - chance)`, in `[-1, 1]`; `None` where chance alone agrees, so
            that nothing can be said.
        count: questions that both judged.
        left_out: questions that one of them did not judge.
    """

    raw: float | None
    kappa: float | None
    count: int
    left_out: int


def agreement(first: Sequence[Hashable | None], second: Sequence[Hashable | None]) -> Agreement:
    """Compare the verdicts of two judges on the same questions.

    Args:
        first: verdicts of any kind (booleans, grades, labels), `None` where there was none.
        second: of the other judge, in the same order.

    Raises:
        ValueError: the lists differ in length.
    """
    if len(first) != len(second):
        raise ValueError(f"two judges on the same questions: {len(first)} and {len(second)} verdicts")
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if a is not None and b is not None]
    count, left_out = len(pairs), len(first) - len(pairs)
    if not pairs:
        return Agreement(None, None, 0, left_out)
    equal = sum(a == b for a, b in pairs)
    ones, others = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    # in whole numbers, count times count as large: equal verdicts of chance are told exactly
    chance = sum(times * others[verdict] for verdict, times in ones.items())
    kappa = (equal * count - chance) / (count * count - chance) if chance < count * count else None
    return Agreement(equal / count, kappa, count, left_out)
