"""Numbers over a benchmark, each a function of sums over sessions, so that one rule serves all.

What is no mean of sessions, such as an F1 over a benchmark, is made of the sums that its official definition
is made of. Intervals then resample sums, and a number of a part, or of several sessions a question, follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from docagent_rl.lab.eval.metrics.longdocurl import QUESTIONS
from docagent_rl.lab.eval.scoring.experts import Expert

Values = Mapping[str, float | None]
"""Numbers of a session by name; `None` has no meaning for it."""


class Form(StrEnum):
    """How a number is made of sums."""

    MEAN = "mean"
    """Over the sessions that have the value."""
    RATIO = "ratio"
    """Sum of a value over the sum of another."""
    F1 = "f1"
    """Of MMLongBench-Doc and LongDocURL (`metrics.scored.accuracy_f1`)."""
    RECTIFIED = "rectified"
    """LongDocURL's headline: questions that are not there count 0."""


class Unit(StrEnum):
    """How a number is shown."""

    PERCENT = "%"
    NUMBER = ""
    SECONDS = "s"
    MONEY = "cost"


@dataclass(frozen=True, slots=True)
class Measure:
    """A number over a benchmark.

    Args:
        name: as it goes into files.
        title: as it goes into tables.
        value: of a session, by name.
        form: how values become a number.
        other: the second value of a ratio.
        expert: whose opinion the value rests on.
        unit: how it is shown.
    """

    name: str
    title: str
    value: str
    form: Form = Form.MEAN
    other: str = ""
    expert: Expert | None = None
    unit: Unit = Unit.PERCENT

    @property
    def width(self) -> int:
        """Number of sums."""
        return 3 if self.form is Form.F1 else 2

    def sums(self, values: Values) -> tuple[float, ...]:
        """What a session adds to the sums: `width` numbers."""
        value = values.get(self.value)
        if value is None:
            return (0.0,) * self.width
        match self.form:
            case Form.MEAN | Form.RECTIFIED:
                return value, 1.0
            case Form.RATIO:
                return value, values.get(self.other) or 0.0
            case Form.F1:
                asked = values.get("gold_answerable") or 0.0
                return value * asked, asked, values.get("answered") or 0.0

    def combine(self, sums: np.ndarray, questions: float) -> np.ndarray:
        """The number.

        Args:
            sums: `(..., width)`.
            questions: that the whole of it has; resamples of documents have other numbers of them.

        Returns:
            `(...)`; NaN where nothing has the value.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.form is Form.F1:
                return _f1(sums)
            found = sums[..., 0] / np.where(sums[..., 1] > 0, sums[..., 1], np.nan)
        return found * (questions / QUESTIONS) if self.form is Form.RECTIFIED else found

    def of(self, values: Values) -> float | None:
        """The value of one session alone; `None` where it has none."""
        return values.get(self.value)


def _f1(sums: np.ndarray) -> np.ndarray:
    gained, asked, answered = sums[..., 0], sums[..., 1], sums[..., 2]
    recall = np.where(asked > 0, gained / np.where(asked > 0, asked, 1.0), 0.0)
    precision = np.where(answered > 0, gained / np.where(answered > 0, answered, 1.0), 0.0)
    both = recall + precision
    return np.where(both > 0, 2 * recall * precision / np.where(both > 0, both, 1.0), 0.0)


def mean(name: str, title: str, **more: object) -> Measure:
    """A mean of the value of the same name."""
    return Measure(name, title, name, **more)  # ty: ignore[invalid-argument-type]
