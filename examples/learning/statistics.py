"""Compute means and confidence intervals of what training changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np
from scipy import stats

from docagent_rl.base.errors import UserError


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % confidence interval; `low` and `high` are NaN for a single value."""

    mean: float
    low: float
    high: float

    @property
    def above_zero(self) -> bool:
        """Return whether the whole interval is above 0."""
        return self.low > 0

    def __str__(self) -> str:
        if math.isnan(self.low):
            return f"{self.mean:.3f}"
        return f"{self.mean:.3f} [{self.low:.3f}, {self.high:.3f}]"


def over_seeds(values: Sequence[float]) -> Interval:
    """Return Student's interval for the mean of a number that each seed has.

    Raises:
        UserError: there is no value.
    """
    if not values:
        raise UserError("an interval needs at least one value")
    mean = fmean(values)
    if len(values) == 1:
        return Interval(mean, math.nan, math.nan)
    half = float(stats.t.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


def paired_gain(
    before: Sequence[float], after: Sequence[float], *, draws: int = 10_000, seed: int = 0
) -> Interval:
    """Return a bootstrap interval for the mean gain over questions asked before and after training.

    Args:
        before: the reward for each question before training.
        after: the rewards after training, in the same order.
        draws: the number of resamples of the questions.
        seed: the seed of the resamples.

    Raises:
        UserError: the two differ in length, or are empty.
    """
    if len(before) != len(after) or not len(before):
        raise UserError(
            f"{len(before)} rewards before and {len(after)} after: give one pair for each question"
        )
    gains = np.asarray(after, dtype=float) - np.asarray(before, dtype=float)
    rng = np.random.default_rng(seed)
    means = gains[rng.integers(len(gains), size=(draws, len(gains)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return Interval(float(gains.mean()), float(low), float(high))
