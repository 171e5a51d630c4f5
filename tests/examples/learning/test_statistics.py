from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import pytest

from docagent_rl.errors import UserError
from learning.plot import smoothed
from learning.statistics import Interval, over_seeds, paired_gain


@pytest.mark.parametrize(
    ("seeds", "quantile"),
    [(2, 12.706205), (3, 4.302653), (11, 2.228139), (31, 2.042272), (121, 1.979930)],
)
def test_the_quantile_is_students_for_any_number_of_seeds(seeds, quantile):
    """Values of printed tables of Student's t."""
    values = [float(number) for number in range(seeds)]
    found = over_seeds(values)
    half = quantile * stdev(values) / math.sqrt(seeds)
    mean = fmean(values)
    assert (found.mean, found.low, found.high) == pytest.approx((mean, mean - half, mean + half), rel=1e-6)
    assert found.above_zero is (mean > half)


def test_one_seed_has_no_interval():
    interval = over_seeds([0.4])
    assert (interval.mean, interval.above_zero, str(interval)) == (0.4, False, "0.400")
    assert math.isnan(interval.low)


def test_a_paired_gain_agrees_with_the_normal_interval():
    rng = random.Random(1)
    before = [float(rng.random() < 0.3) for _ in range(400)]
    after = [float(b or rng.random() < 0.4) for b in before]
    gains = [a - b for a, b in zip(after, before, strict=True)]
    interval = paired_gain(before, after)
    half = 1.96 * stdev(gains) / 20
    assert interval.mean == pytest.approx(fmean(gains))
    assert (interval.low, interval.high) == pytest.approx(
        (fmean(gains) - half, fmean(gains) + half), abs=0.01
    )
    assert paired_gain(before, after) == interval
    assert paired_gain([0.2, 1.0], [0.2, 1.0]) == Interval(0.0, 0.0, 0.0)


def test_trailing_means_by_hand():
    assert smoothed([1.0, 2.0, 6.0, 4.0], window=2).tolist() == [1.0, 1.5, 4.0, 5.0]
    assert smoothed([3.0], window=5).tolist() == [3.0]


def test_pairs_must_be_pairs():
    with pytest.raises(UserError):
        paired_gain([1.0], [1.0, 0.0])
    with pytest.raises(UserError):
        over_seeds([])
