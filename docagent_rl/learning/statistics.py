"""Means and confidence intervals of what training changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from docagent_rl.errors import UserError

T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
         2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086)  # fmt: skip
"""97.5 % points of Student's t for 1 to 20 degrees of freedom."""

NORMAL_975 = 1.960


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % confidence interval; `low` and `high` are NaN for a single value."""

    mean: float
    low: float
    high: float

    @property
    def above_zero(self) -> bool:
        """The whole interval is above 0."""
        return self.low > 0

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.mean:.3f}"
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def over_seeds(values: Sequence[float]) -> Interval:
    """Student's interval for the mean of one number a seed.

    Raises:
        UserError: there is no value.
    """
    if not values:
        raise UserError("an interval needs at least one value")
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    freedom = len(values) - 1
    quantile = T_975[freedom - 1] if freedom <= len(T_975) else NORMAL_975
    half = quantile * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def paired_gain(
    before: Sequence[float], after: Sequence[float], *, draws: int = 10_000, seed: int = 0
) -> Interval:
    """Bootstrap interval for the mean gain over questions that were asked before and after.

    Args:
        before: reward of each question.
        after: of the same questions in the same order.
        draws: resamples of the questions.
        seed: of the resamples.

    Raises:
        UserError: the two differ in length, or are empty.
    """
    if len(before) != len(after) or not len(before):
        raise UserError(f"{len(before)} rewards before and {len(after)} after: give one pair a question")
    gains = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    rng = np.random.default_rng(seed)
    means = gains[rng.integers(len(gains), size=(draws, len(gains)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(gains.mean()), float(low), float(high))
