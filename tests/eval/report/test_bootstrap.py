from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from docagent_rl.eval.report.bootstrap import intervals
from docagent_rl.eval.report.sums import Cell, sums_of
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.eval.report.scores import F1, SCORE, scored, slow_bootstrap, slow_number

CELLS = [Cell(SCORE), Cell(F1)]
ANSWERS = st.sampled_from(["x", NOT_ANSWERABLE])
ROWS = st.lists(st.tuples(st.sampled_from("abcd"), st.floats(0, 1), ANSWERS, ANSWERS), max_size=12)


@given(ROWS)
@settings(max_examples=40)
def test_numbers_and_intervals_are_those_of_the_slow_version(rows):
    # to decline an answerable question gains nothing, else an F1 may exceed 1
    sessions = [
        scored(n, 0.0 if pred == NOT_ANSWERABLE != gold else score, document=doc, pred=pred, gold=gold)
        for n, (doc, score, pred, gold) in enumerate(rows)
    ]
    documents = len({row[0] for row in rows})
    for cell, found in zip(CELLS, intervals(sums_of(sessions, CELLS), draws=40, seed=5), strict=True):
        assert (found.questions, found.documents) == (len(rows), documents)
        wanted = slow_number(sessions, cell.measure)
        assert found.value == (None if wanted is None else pytest.approx(wanted, abs=1e-12))
        assert (found.low is not None) == (documents > 1)
        if found.low is not None:
            ends = slow_bootstrap(sessions, cell.measure, 40, 5)
            assert [found.low, found.high] == pytest.approx(ends, abs=1e-12)
            assert -1e-12 <= found.low <= found.high <= 1 + 1e-12


def test_scipy_finds_the_same_interval_of_a_seed_or_another():
    rng = np.random.default_rng(3)
    sessions = [scored(n, rng.random() < 0.6, document=f"d{rng.integers(40)}") for n in range(200)]
    sums = sums_of(sessions, [Cell(SCORE)])
    (found,), (other,) = (intervals(sums, draws=20_000, seed=seed) for seed in (0, 1))
    wanted = stats.bootstrap(
        (sums.table[:, 0], sums.table[:, 1]),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True, vectorized=True, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=0.004)
    assert found != other


def test_several_sessions_of_a_question_weigh_one_together():
    sessions = [scored(0, 1), scored(1, 0, session=0), scored(1, 0, session=1), scored(1, 1, session=2)]
    (found,) = intervals(sums_of(sessions, [Cell(SCORE)]), draws=100)
    assert found.value == pytest.approx((1 + 1 / 3) / 2)
    assert (found.questions, found.documents) == (2, 2)
    # with as many of each it is the mean of the runs
    rng = np.random.default_rng(0)
    sessions = [scored(n, rng.random(), document=f"d{n % 5}", session=s) for s in range(3) for n in range(20)]
    (found,) = intervals(sums_of(sessions, [Cell(SCORE)]), draws=10)
    assert found.value == pytest.approx(slow_number(sessions, SCORE))


def test_rows_of_breakdowns_hold_their_questions_and_those_without_value_are_in_none():
    sessions = [scored(0, 1), scored(1, 0), scored(2, None), scored(3, 1)]
    odd = ("kind", "odd")
    cells = [Cell(SCORE), Cell(SCORE, odd), Cell(SCORE, ("kind", "none"))]
    sums = sums_of(sessions, cells, lambda each: [odd] if each.question_id in ("q1", "q2", "q3") else [])
    whole, part, nothing = intervals(sums, draws=50)
    assert (whole.value, whole.questions) == (pytest.approx(2 / 3), 3)
    assert (part.value, part.questions, part.documents) == (0.5, 2, 2)
    assert (nothing.value, nothing.low, nothing.questions) == (None, None, 0)
