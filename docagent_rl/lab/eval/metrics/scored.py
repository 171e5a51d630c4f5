"""Means over scored questions, and the F1 that MMLongBench-Doc and LongDocURL report."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from docagent_rl.rewards.text import NOT_ANSWERABLE


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored question.

    Args:
        answer: the right answer as the benchmark has it; `NOT_ANSWERABLE` exactly when there is none.
        pred: the extracted answer.
        score: in `[0, 1]`.
    """

    answer: object
    pred: object
    score: float


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and what it was taken over.

    Args:
        value: `None` of nothing.
        count: numbers in it.
    """

    value: float | None
    count: int

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Mean:
        """Over the values that there are; `None` means that a number has no meaning for a question."""
        there = [value for value in values if value is not None]
        return cls(math.fsum(there) / len(there) if there else None, len(there))


def grouped(rows: Iterable[tuple[Iterable[str], float | None]]) -> dict[str, Mean]:
    """Means by label. A question counts in each of its labels once; labels come in alphabetical order."""
    groups: dict[str, list[float | None]] = {}
    for labels, value in rows:
        for label in set(labels):
            groups.setdefault(label, []).append(value)
    return {label: Mean.of(groups[label]) for label in sorted(groups)}


def mean_of_each(rows: Iterable[Mapping[str, float | None]]) -> dict[str, Mean]:
    """The mean of every number that some row has, by its name."""
    return grouped(([name], value) for row in rows for name, value in row.items())


def accuracy_f1(results: Iterable[Scored]) -> tuple[float, float]:
    """Generalised accuracy and F1 over a benchmark (arXiv 2407.01523, `eval/eval_score.py`).

    Accuracy is the mean score. With S the sum of the scores of answerable questions, recall is S over their
    number and precision is S over the number of all predictions that are not exactly `NOT_ANSWERABLE`.

    Returns:
        `(accuracy, F1)`, both in `[0, 1]`; 0 where a denominator is.
    """
    rows = list(results)
    if not rows:
        return 0.0, 0.0
    answerable = [row.score for row in rows if row.answer != NOT_ANSWERABLE]
    answered = sum(row.pred != NOT_ANSWERABLE for row in rows)
    gained = math.fsum(answerable)
    recall = gained / len(answerable) if answerable else 0.0
    precision = gained / answered if answered else 0.0
    both = recall + precision
    return math.fsum(row.score for row in rows) / len(rows), 2 * recall * precision / both if both else 0.0
