"""Numbers from sums, against the official functions over whole benchmarks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.longdocurl import LongDocURLRow, longdocurl_accuracy
from docagent_rl.eval.metrics.mmlongbench_doc import mmlongbench_acc_f1
from docagent_rl.eval.metrics.scored import Scored
from docagent_rl.eval.scoring.measures import Form, Measure, mean
from docagent_rl.eval.scoring.protocols import PROTOCOLS
from docagent_rl.rewards.text import NOT_ANSWERABLE

NA = NOT_ANSWERABLE
ROWS = st.lists(
    st.tuples(st.sampled_from(["41", NA]), st.sampled_from(["41", NA, "x"]), st.floats(0, 1)), max_size=30
)


def total(measure, values):
    found = list(values)
    sums = np.array([measure.sums(each) for each in found]).reshape(-1, measure.width).sum(axis=0)
    return float(measure.combine(sums, len(found)))


def values_of(rows):
    for gold, pred, score in rows:
        yield {"score": score, "inline_score": score, "gold_answerable": gold != NA, "answered": pred != NA}


@given(ROWS)
def test_numbers_of_mmlongbench_are_the_official_ones(rows):
    acc, f1 = (total(measure, values_of(rows)) for measure in PROTOCOLS["mmlongbench"].measures)
    wanted = mmlongbench_acc_f1([Scored(*row) for row in rows])
    assert f1 == pytest.approx(wanted[1], abs=1e-12)
    assert acc == pytest.approx(wanted[0], abs=1e-12) if rows else math.isnan(acc)


@given(ROWS.filter(bool))
def test_numbers_of_longdocurl_are_the_official_ones(rows):
    wanted = longdocurl_accuracy([LongDocURLRow(*row) for row in rows])
    for measure in PROTOCOLS["longdocurl"].measures:
        assert total(measure, values_of(rows)) == pytest.approx(wanted[measure.name], abs=1e-12)


def test_a_mean_leaves_out_what_has_no_meaning():
    measure = mean("x", "X")
    assert total(measure, [{"x": 1.0}, {"x": None}, {}, {"x": 0.0}]) == 0.5
    assert math.isnan(total(measure, [{"x": None}]))


def test_a_ratio_divides_sums():
    measure = Measure("r", "R", "invalid", Form.RATIO, "turns")
    assert total(measure, [{"invalid": 1.0, "turns": 1.0}, {"invalid": 0.0, "turns": 9.0}, {}]) == 0.1


def test_a_whole_array_of_sums_is_combined_at_once():
    for form in Form:
        measure = Measure("a", "a", "a", form, "b")
        sums = np.random.default_rng(0).random((3, 4, measure.width))
        sums[0, 0] = 0
        found = measure.combine(sums, 7)
        one = [[measure.combine(row, 7) for row in table] for table in sums]
        np.testing.assert_array_equal(found, one)
