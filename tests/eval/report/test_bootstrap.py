from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from docagent_rl.eval.report.bootstrap import intervals
from docagent_rl.eval.report.sums import ALL, Cell, sums_of
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.eval.report.scores import F1, SCORE, scored, slow_bootstrap, slow_number

CELLS = [Cell(SCORE), Cell(F1)]
ROW = st.tuples(
    st.sampled_from("abcd"), st.floats(0, 1), st.sampled_from(["x", NOT_ANSWERABLE]),
    st.sampled_from(["x", NOT_ANSWERABLE]),
)  # fmt: skip


def sessions_of(rows):
    # to decline an answerable question gains nothing, else an F1 may exceed 1
    return [
        scored(n, 0.0 if pred == NOT_ANSWERABLE != gold else score, document=doc, pred=pred, gold=gold)
        for n, (doc, score, pred, gold) in enumerate(rows)
    ]


def random_sessions(questions=40, documents=9, seed=3):
    rng = np.random.default_rng(seed)
    answers = np.array(["x", NOT_ANSWERABLE])
    return sessions_of(
        (f"d{rng.integers(documents)}", rng.random() < 0.6, *map(str, rng.choice(answers, 2, p=[0.8, 0.2])))
        for _ in range(questions)
    )


@given(st.lists(ROW, min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_numbers_and_intervals_are_those_of_the_slow_version(rows):
    sessions = sessions_of(rows)
    for cell, found in zip(CELLS, intervals(sums_of(sessions, CELLS), draws=40, seed=5), strict=True):
        assert found.value == pytest.approx(slow_number(sessions, cell.measure), abs=1e-12)
        if found.low is not None:
            wanted = slow_bootstrap(sessions, cell.measure, 40, 5)
            assert [found.low, found.high] == pytest.approx(wanted, abs=1e-12)
            assert -1e-12 <= found.low <= found.high <= 1 + 1e-12
        else:
            assert len({row[0] for row in rows}) == 1


def test_scipy_finds_the_same_interval():
    sessions = random_sessions(200, 40)
    sums = sums_of(sessions, [Cell(SCORE)])
    (found,) = intervals(sums, draws=20_000, seed=0)
    wanted = stats.bootstrap(
        (sums.table[:, 0], sums.table[:, 1]),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True, vectorized=True, n_resamples=20_000, method="percentile", rng=np.random.default_rng(1),
    ).confidence_interval  # fmt: skip
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), abs=0.004)


def test_documents_are_resampled_and_not_questions():
    # ten documents, all questions of one alike: as wide as with ten questions, not with a thousand
    many = [scored(n, n % 10 < 5, document=f"d{n % 10}") for n in range(1000)]
    few = [scored(n, n < 5, document=f"d{n}") for n in range(10)]
    one, other = (intervals(sums_of(each, [Cell(SCORE)]), draws=2000)[0] for each in (many, few))
    assert (one.low, one.high) == pytest.approx((other.low, other.high))
    assert one.high - one.low > 0.5


@pytest.mark.slow
def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    rng, covered, times = np.random.default_rng(11), 0, 300
    for _ in range(times):
        sessions = []
        for document in range(40):
            likely = rng.beta(2, 2)  # of mean 0.5: what all questions of a document share
            sessions += [
                scored(f"{document}.{n}", rng.random() < likely, document=f"d{document}")
                for n in range(rng.integers(1, 8))
            ]
        (found,) = intervals(sums_of(sessions, [Cell(SCORE)]), draws=400, seed=int(rng.integers(1 << 30)))
        covered += found.low <= 0.5 <= found.high
    assert 0.90 <= covered / times <= 0.98


def test_several_sessions_of_a_question_weigh_one_together():
    sessions = [scored(0, 1), scored(1, 0, session=0), scored(1, 0, session=1), scored(1, 1, session=2)]
    (found,) = intervals(sums_of(sessions, [Cell(SCORE)]), draws=100)
    assert found.value == pytest.approx((1 + 1 / 3) / 2)
    assert (found.questions, found.documents) == (2, 2)


def test_equal_numbers_of_sessions_give_the_mean_of_the_runs():
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
    assert ALL == ("", "")


def test_nothing_at_all_has_no_numbers():
    (found,) = intervals(sums_of([], [Cell(F1)]), draws=10)
    assert (found.value, found.low, found.questions) == (None, None, 0)


def test_a_seed_decides_the_interval():
    sums = sums_of(random_sessions(), CELLS)
    assert intervals(sums, draws=300, seed=1) == intervals(sums, draws=300, seed=1)
    assert intervals(sums, draws=300, seed=1) != intervals(sums, draws=300, seed=2)
