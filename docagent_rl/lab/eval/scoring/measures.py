"""Numbers over a benchmark, each a function of sums over trajectories, so that one rule serves all.

An F1 over a benchmark is no mean of trajectories: it is made of the sums that its official definition is made
of. Intervals then resample sums, and a number of a part, or of several trajectories a question, follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from docagent_rl.lab.eval.metrics.longdocurl import QUESTIONS
from docagent_rl.lab.eval.scoring.experts import Expert

Values = Mapping[str, float | None]
"""Numbers of a trajectory by name; `None` has no meaning for it."""


class Form(StrEnum):
    """How a number is made of sums."""

    MEAN = "mean"
    """Over the trajectories that have the value."""
    RATIO = "ratio"
    """Sum of a value over the sum of another."""
    F1 = "f1"
    """F1 of MMLongBench-Doc and LongDocURL (arXiv 2407.01523, `eval/eval_score.py`): with S the sum of scores
    of answerable questions, recall is S over their number and precision is S over the number of predictions
    that are not exactly `NOT_ANSWERABLE`."""
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
        value: of a trajectory, by name.
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
        """Return what a trajectory with the value adds to the sums: `width` numbers."""
        value = values.get(self.value)
        if value is None:
            return (0.0,) * self.width
        match self.form:
            case Form.RATIO:
                return value, values.get(self.other) or 0.0
            case Form.F1:
                asked = values.get("gold_answerable") or 0.0
                return value * asked, asked, values.get("answered") or 0.0
        return value, 1.0

    def combine(self, sums: np.ndarray, questions: float) -> np.ndarray:
        """Return the number.

        Args:
            sums: `(..., width)`.
            questions: that the whole of it has; resamples of documents have other numbers of them.

        Returns:
            `(...)`; NaN where nothing has the value.
        """
        if self.form is Form.F1:
            gained, asked, answered = np.moveaxis(sums, -1, 0)
            recall, precision = _ratio(gained, asked, 0.0), _ratio(gained, answered, 0.0)
            return _ratio(2 * recall * precision, recall + precision, 0.0)
        found = _ratio(sums[..., 0], sums[..., 1], np.nan)
        return found * (questions / QUESTIONS) if self.form is Form.RECTIFIED else found

    def of(self, values: Values) -> float | None:
        """Return the value of one trajectory alone; `None` where it has none."""
        return values.get(self.value)


def _ratio(above: np.ndarray, below: np.ndarray, otherwise: float) -> np.ndarray:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), otherwise)


def mean(name: str, title: str, **more: Any) -> Measure:
    """Return the mean of the value of the same name."""
    return Measure(name, title, name, **more)
