"""Numbers from sums, against the official functions over whole benchmarks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.longdocurl import LongDocURLRow, longdocurl_accuracy
from docagent_rl.eval.metrics.mmlongbench_doc import mmlongbench_acc_f1
from docagent_rl.eval.scoring.measures import Form, Measure, mean
from docagent_rl.eval.scoring.protocols import PROTOCOLS
from docagent_rl.rewards.text import NOT_ANSWERABLE as NA

ROWS = st.lists(
    st.builds(LongDocURLRow, st.sampled_from(["41", NA]), st.sampled_from(["41", NA, "x"]), st.floats(0, 1)),
    max_size=30,
)


def total(measure, values):
    sums = np.array([measure.sums(each) for each in values]).reshape(-1, measure.width).sum(axis=0)
    return float(measure.combine(sums, len(values)))


@given(ROWS)
def test_numbers_of_mmlongbench_and_longdocurl_are_the_official_ones(rows):
    values = [
        {
            "score": row.score,
            "inline_score": row.score,
            "gold_answerable": row.answer != NA,
            "answered": row.pred != NA,
        }
        for row in rows
    ]
    wanted = {
        "mmlongbench": dict(zip(("acc", "f1"), mmlongbench_acc_f1(rows), strict=True)),
        "longdocurl": longdocurl_accuracy(rows),
    }
    for dataset, numbers in wanted.items():
        for measure in PROTOCOLS[dataset].measures:
            found = total(measure, values)
            if rows or measure.form is Form.F1:
                assert found == pytest.approx(numbers[measure.name], abs=1e-12)
            else:
                assert math.isnan(found)


def test_a_mean_leaves_out_what_has_no_meaning():
    measure = mean("x", "X")
    assert total(measure, [{"x": 1.0}, {"x": None}, {}, {"x": 0.0}]) == 0.5
    assert math.isnan(total(measure, [{"x": None}]))


def test_a_ratio_divides_sums():
    measure = Measure("r", "R", "invalid", Form.RATIO, "turns")
    assert total(measure, [{"invalid": 1.0, "turns": 1.0}, {"invalid": 0.0, "turns": 9.0}, {}]) == 0.1


@pytest.mark.parametrize("form", Form)
def test_a_whole_array_of_sums_is_combined_at_once(form):
    measure = Measure("a", "a", "a", form, "b")
    sums = np.random.default_rng(0).random((3, 4, measure.width))
    sums[0, 0] = 0
    one = [[measure.combine(row, 7) for row in table] for table in sums]
    np.testing.assert_array_equal(measure.combine(sums, 7), one)
