from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import pytest

from docagent_rl.errors import UserError
from learning.statistics import Interval, over_seeds, paired_gain


def test_three_seeds_by_hand():
    interval = over_seeds([0.5, 0.6, 0.7])
    # mean 0.6, standard deviation 0.1, t of two degrees of freedom
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert interval.mean == pytest.approx(0.6)
    assert interval.low == pytest.approx(0.6 - half)
    assert interval.high == pytest.approx(0.6 + half)
    assert interval.above_zero


@pytest.mark.parametrize(
    ("seeds", "quantile"), [(2, 12.706205), (11, 2.228139), (31, 2.042272), (121, 1.979930)]
)
def test_the_quantile_is_students_for_any_number_of_seeds(seeds, quantile):
    """Values of printed tables of Student's t."""
    values = [float(number) for number in range(seeds)]
    half = over_seeds(values).high - fmean(values)
    assert half == pytest.approx(quantile * stdev(values) / math.sqrt(seeds), rel=1e-6)


def test_one_seed_has_no_interval():
    interval = over_seeds([0.4])
    assert interval.mean == 0.4
    assert math.isnan(interval.low)
    assert not interval.above_zero
    assert str(interval) == "0.400"


def test_the_interval_covers_the_mean_as_often_as_it_says():
    rng = random.Random(0)
    hits = 0
    for _ in range(2000):
        interval = over_seeds([rng.gauss(0.3, 0.2) for _ in range(3)])
        hits += interval.low <= 0.3 <= interval.high
    assert 0.93 < hits / 2000 < 0.97


def test_a_paired_gain_agrees_with_the_normal_interval():
    rng = random.Random(1)
    before = [float(rng.random() < 0.3) for _ in range(400)]
    after = [float(b or rng.random() < 0.4) for b in before]
    gains = [a - b for a, b in zip(after, before, strict=True)]
    interval = paired_gain(before, after)
    half = 1.96 * stdev(gains) / 20
    assert interval.mean == pytest.approx(fmean(gains))
    assert interval.low == pytest.approx(fmean(gains) - half, abs=0.01)
    assert interval.high == pytest.approx(fmean(gains) + half, abs=0.01)
    assert paired_gain(before, after) == interval


def test_no_change_is_no_gain():
    assert paired_gain([0.2, 1.0], [0.2, 1.0]) == Interval(0.0, 0.0, 0.0)
    assert not paired_gain([0.2, 1.0], [0.2, 1.0]).above_zero


def test_pairs_must_be_pairs():
    with pytest.raises(UserError, match="one pair a question"):
        paired_gain([1.0], [1.0, 0.0])
    with pytest.raises(UserError, match="at least one value"):
        over_seeds([])
