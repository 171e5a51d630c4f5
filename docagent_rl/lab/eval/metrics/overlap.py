"""Overlap of two lists, counted with multiplicity: the F1 of SQuAD and SlideVQA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence


def overlap(gold: Sequence[Hashable], pred: Sequence[Hashable]) -> dict[str, float]:
    """Exact match, F1, precision and recall of a list.

    Returns:
        `em`, `f1`, `precision` and `recall`, each in `[0, 1]`. Exact match asks for the same order and
        number. All are 0 when nothing is common, two empty lists included.
    """
    common = (Counter(gold) & Counter(pred)).total()
    if not common:
        return {"em": 0.0, "f1": 0.0, "precision": 0.0, "recall": 0.0}
    return {
        "em": float(list(gold) == list(pred)),
        "f1": 2 * common / (len(gold) + len(pred)),
        "precision": common / len(pred),
        "recall": common / len(gold),
    }
