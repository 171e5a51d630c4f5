"""Scored trajectories, one per line of JSON, and measures: numbers over many of them.

A measure is a function of sums over trajectories: the F1 of a benchmark, for example, is not a mean
over trajectories, but computed from the sums in its official definition. Intervals resample these
sums.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from docagent_rl.base.text import encodable
from docagent_rl.lab.eval.metrics.accuracy import QUESTIONS
from docagent_rl.lab.eval.metrics.judges import AnswerJudge, Extractor
from docagent_rl.lab.eval.metrics.madqa import SENSITIVITY, SPECIFICITY

Values = Mapping[str, float | None]
"""Numbers of a trajectory by name; `None` if undefined for it."""


class Form(StrEnum):
    """A formula that computes a measure's number from sums."""

    MEAN = "mean"
    """Mean over the trajectories that have the value."""
    RATIO = "ratio"
    """Sum of one value divided by the sum of another."""
    F1 = "f1"
    """F1 of MMLongBench-Doc and LongDocURL (arXiv 2407.01523, `eval/eval_score.py`): with S the sum
    of scores of answerable questions, recall is S over their number and precision is S over the
    number of predictions that are not exactly `NOT_ANSWERABLE`.
    """
    RECTIFIED = "rectified"
    """LongDocURL's headline: missing questions count as 0."""
    ADJUSTED = "adjusted"
    """MADQA's headline: a mean corrected for the errors of the benchmark's own judge (Rogan and
    Gladen; arXiv 2511.21140), with q1 and q0 its sensitivity and specificity:
    `(mean + q0 - 1) / (q0 + q1 - 1)`.
    """


class Unit(StrEnum):
    """Unit of a measure, which determines its format."""

    PERCENT = "%"
    NUMBER = ""
    SECONDS = "s"


@dataclass(frozen=True, slots=True)
class Measure:
    """A number over a benchmark: its name in files, its title in tables, and the value from which
    it is computed.
    """

    name: str
    title: str
    value: str
    """Name of a value of a trajectory."""
    form: Form = Form.MEAN
    other: str = ""
    """Name of the second value of a ratio."""
    role: Extractor | AnswerJudge | None = None
    """The judge or extractor on whose replies the value rests."""
    unit: Unit = Unit.PERCENT

    @property
    def width(self) -> int:
        """Number of sums that the measure needs."""
        return 3 if self.form is Form.F1 else 2

    def sums(self, values: Values) -> tuple[float, ...]:
        """Return a trajectory's contribution to the sums, `width` numbers; 0 without the value."""
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
        """Return the number for sums `(..., width)`, as `(...)`; NaN if nothing has the value.

        `questions` is the number for the whole run, which differs in resamples of documents.
        """
        if self.form is Form.F1:
            gained, asked, answered = np.moveaxis(sums, -1, 0)
            recall = _ratio(gained, asked, 0.0)
            precision = _ratio(gained, answered, 0.0)
            return _ratio(2 * recall * precision, recall + precision, 0.0)
        found = _ratio(sums[..., 0], sums[..., 1], np.nan)
        if self.form is Form.ADJUSTED:
            return np.clip((found + SPECIFICITY - 1) / (SPECIFICITY + SENSITIVITY - 1), 0.0, 1.0)
        return found * (questions / QUESTIONS) if self.form is Form.RECTIFIED else found


def _ratio(above: np.ndarray, below: np.ndarray, otherwise: float) -> np.ndarray:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), otherwise)


def mean(name: str, title: str, **more: Any) -> Measure:
    """Return the measure that is the mean of the value with the same name."""
    return Measure(name, title, name, **more)


@dataclass(frozen=True, slots=True)
class ScoredTrajectory:
    """One scored trajectory."""

    question_id: str
    number: int
    document: str
    """The question's document; intervals resample documents."""
    dataset: str
    system: str
    agent: str
    status: str
    reason: str
    scored: bool
    """True if the right answer is known; otherwise only navigation and use are meaningful."""
    answer: str | None
    labels: dict[str, list[str]]
    """Labels by kind (`played.labels_of`)."""
    groups: list[str]
    """Lines of the benchmark's own table in which the question counts."""
    values: dict[str, float | None]
    """Numbers by name (`protocols`, `use`)."""
    replies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The reply of each judge and extractor about the answer: `value`, `by`, `failed`."""

    def to_json(self) -> str:
        """Return the trajectory as one line of JSON."""
        finite = {
            name: v if v is None or math.isfinite(v) else None for name, v in self.values.items()
        }
        line = {**asdict(self), "values": finite}
        line["experts"] = line.pop("replies")  # the key of `scores.jsonl`
        return encodable(json.dumps(line, ensure_ascii=False, allow_nan=False))
