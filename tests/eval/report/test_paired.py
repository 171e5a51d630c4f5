from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.eval.report.paired import compare
from docagent_rl.eval.report.permutation import EXACT, holm
from docagent_rl.rewards.text import NOT_ANSWERABLE
from tests.eval.report.scores import F1, SCORE, scored, slow_permutation

PAIR = st.tuples(
    st.sampled_from("abcde"), st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([0.0, 0.6, 1.0]),
    st.sampled_from(["x", NOT_ANSWERABLE]),
)  # fmt: skip


def pair_of(rows):
    first = [scored(n, a, document=doc, pred=pred) for n, (doc, a, _, pred) in enumerate(rows)]
    second = [scored(n, b, document=doc) for n, (doc, _, b, _) in enumerate(rows)]
    return first, second


def simulated(gain, documents=60, seed=0):
    rng = np.random.default_rng(seed)
    first, second = [], []
    for number in range(documents * 3):
        base = rng.random() * (1 - gain)
        document = f"d{number % documents}"
        first.append(scored(number, rng.random() < base, document=document))
        second.append(scored(number, rng.random() < base + gain, document=document))
    return first, second


@given(st.lists(PAIR, min_size=1, max_size=10))
@settings(max_examples=40, deadline=None)
def test_p_values_of_few_documents_are_exact(rows):
    first, second = pair_of(rows)
    found = compare(first, second, [SCORE, F1], draws=20)
    for difference in found.whole:
        wanted = slow_permutation(first, second, difference.cell.measure)
        assert difference.p == pytest.approx(wanted, abs=1e-12)
        assert 0 < difference.p <= 1


@given(st.lists(PAIR, min_size=1, max_size=30), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_a_swap_turns_everything_round(rows, seed):
    first, second = pair_of(rows)
    there = compare(first, second, [SCORE, F1], draws=60, seed=seed)
    back = compare(second, first, [SCORE, F1], draws=60, seed=seed)
    assert (there.won, there.lost, there.tied) == (back.lost, back.won, back.tied)
    assert [flip.question_id for flip in there.gained] == [flip.question_id for flip in back.given_up]
    for one, other in zip(there.whole, back.whole, strict=True):
        assert one.gain.value == pytest.approx(-other.gain.value, abs=1e-12)
        assert one.p == other.p
        if one.gain.low is not None:
            assert one.gain.low == pytest.approx(-other.gain.high, abs=1e-12)


@pytest.mark.parametrize("documents", [5, 40])
def test_a_run_against_itself_differs_by_nothing(documents):
    first, _ = simulated(0.2, documents)
    found = compare(first, first, [SCORE, F1], draws=200)
    for difference in found.whole:
        assert (difference.gain.value, difference.gain.low, difference.gain.high) == (0, 0, 0)
        assert difference.p == 1
    assert (found.won, found.lost, found.tied) == (0, 0, len(first))
    assert found.gained == found.given_up == ()


def test_a_large_gain_is_found_and_none_is_not():
    assert compare(*simulated(0.3), [SCORE], draws=2000).whole[0].p < 0.01
    assert compare(*simulated(0.0), [SCORE], draws=2000).whole[0].p > 0.05


@pytest.mark.slow
def test_chance_is_called_a_difference_about_as_often_as_it_should():
    found = [compare(*simulated(0.0, seed=seed), [SCORE], draws=300).whole[0] for seed in range(200)]
    assert sum(each.p <= 0.05 for each in found) / 200 <= 0.09
    outside = sum(not each.gain.low <= 0 <= each.gain.high for each in found) / 200
    assert outside <= 0.1


def test_random_ways_come_near_the_exact_value():
    rows = [(f"d{n}", 0.0, float(n % 3 == 0), "x") for n in range(EXACT)]
    exact = compare(*pair_of(rows), [SCORE], draws=10).whole[0]
    more = [*rows, ("tied", 1.0, 1.0, "x")]  # one document too many; it changes nothing
    assert compare(*pair_of(more), [SCORE], draws=20_000).whole[0].p == pytest.approx(exact.p, abs=0.01)
    assert exact.p == 2 / 2**5


def test_questions_that_one_run_lacks_are_named_and_left_out():
    first = [scored(0, 1), scored(1, 1), scored(2, 0), scored(4, 1, document="x")]
    second = [scored(1, 0), scored(2, 1), scored(3, 1), scored(4, 1, document="y")]
    found = compare(first, second, [SCORE], draws=50)
    assert (found.only_first, found.only_second, found.clashing) == (("q0",), ("q3",), ("q4",))
    assert (found.won, found.lost, found.tied) == (1, 1, 0)
    assert [flip.question_id for flip in found.gained] == ["q2"]
    assert [flip.question_id for flip in found.given_up] == ["q1"]
    assert found.whole[0].gain.questions == 2


def test_a_number_that_one_run_lacks_for_a_question_is_not_compared_there():
    first = [scored(0, 1), scored(1, None), scored(2, 0)]
    second = [scored(0, 1), scored(1, 0), scored(2, 1)]
    (whole,) = compare(first, second, [SCORE], draws=50).whole
    assert (whole.first, whole.second, whole.gain.questions) == (0.5, 1.0, 2)


def test_runs_without_a_common_question_have_nothing_to_compare():
    found = compare([scored(0, 1)], [scored(1, 1)], [SCORE], draws=10)
    assert (found.whole[0].gain.value, found.whole[0].p) == (None, None)
    assert (found.won, found.lost, found.tied) == (0, 0, 0)


def test_breakdowns_are_corrected_for_being_several():
    first, second = simulated(0.3, 40)

    def rows(each):
        number = int(each.question_id[1:])
        return [("third", str(number % 3)), ("half", str(number % 2))]

    found = compare(first, second, [SCORE], rows, draws=500)
    assert [part.cell.row for part in found.parts] == [
        ("half", "0"), ("half", "1"), ("third", "0"), ("third", "1"), ("third", "2"),
    ]  # fmt: skip
    assert [part.corrected for part in found.parts] == holm([part.p for part in found.parts])
    assert all(part.corrected >= part.p for part in found.parts)
    assert found.whole[0].corrected is None


def test_holm_by_hand():
    assert holm([0.01, None, 0.04, 0.03, 0.005]) == pytest.approx([0.03, None, 0.06, 0.06, 0.02], nan_ok=True)
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@given(st.lists(st.floats(0.0001, 1), max_size=8))
def test_holm_keeps_the_order_and_never_helps(values):
    corrected = holm(values)
    assert all(
        value <= found <= min(1, value * len(values)) for value, found in zip(values, corrected, strict=True)
    )
    assert [corrected[n] for n in np.argsort(values, kind="stable")] == sorted(corrected)
