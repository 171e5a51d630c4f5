"""Strata and rules, counted by hand."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.collect.curation import (
    Rate,
    Stratum,
    choose_learnable,
    choose_stratified,
    quotas,
    rates,
)
from docagent_rl.collect.filters import Scoring
from tests.collect.cases import case


def pool(easy, medium, hard, sessions=4):
    counts = [(Stratum.EASY, easy, sessions), (Stratum.MEDIUM, medium, 1), (Stratum.HARD, hard, 0)]
    return [
        Rate(f"{s.value}{n}", sessions, right, found=True) for s, count, right in counts for n in range(count)
    ]


def drawn(choice):
    return [len(choice.chosen[stratum]) for stratum in (Stratum.EASY, Stratum.MEDIUM, Stratum.HARD)]


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        # the paper's 2,048: 204.8, 1433.6, 409.6
        (2048, (205, 1434, 409)),
        (10, (1, 7, 2)),
        # 0.5, 3.5, 1.0: the tie goes to the larger share
        (5, (0, 4, 1)),
        (1, (0, 1, 0)),
        (0, (0, 0, 0)),
    ],
)
def test_quotas_are_largest_remainders(count, wanted):
    assert tuple(quotas(count)[s] for s in (Stratum.EASY, Stratum.MEDIUM, Stratum.HARD)) == wanted


@given(st.integers(0, 5000))
def test_quotas_sum_to_what_is_asked_for(count):
    assert sum(quotas(count).values()) == count


def test_pass_rates_count_right_sessions_and_pages_found():
    cases = [
        case("a", 0),
        case("a", 1, prediction="red", shown=frozenset()),
        case("b", 0, gold=frozenset({"d#3", "d#4"})),
        case("c", 0, gold=None),
    ]
    assert rates(cases, Scoring.LIKENESS, 0.7) == [
        Rate("a", 2, 1, found=True),
        Rate("b", 1, 1, found=False),
        Rate("c", 1, 1, found=False),
    ]


def test_strata_are_all_some_and_none():
    assert [Rate("q", 4, right, found=True).stratum for right in range(5)] == [
        Stratum.HARD,
        Stratum.MEDIUM,
        Stratum.MEDIUM,
        Stratum.MEDIUM,
        Stratum.EASY,
    ]


def test_a_full_pool_is_drawn_by_its_shares():
    choice = choose_stratified(pool(300, 2000, 500))
    assert drawn(choice) == [205, 1434, 409]
    assert choice.warnings == []
    assert choose_stratified(pool(300, 2000, 500)).questions == choice.questions
    assert choose_stratified(pool(300, 2000, 500), seed=1).questions != choice.questions


@pytest.mark.parametrize(
    ("there", "wanted", "warning"),
    [
        # 20 easy lack, which the medium ones have
        ((0, 200, 60), [0, 160, 40], r"easy\b.*\b20\b.*\b0\b.*\b20 medium"),
        # the medium ones have 5 to spare, the hard ones the rest
        ((0, 145, 60), [0, 145, 55], r"\b20\b.*\b0\b.*\b5 medium.*\b15 hard"),
        ((50, 100, 50), [50, 100, 50], r"\b140\b.*\b100\b.*\b10 hard.*\b30 easy"),
        ((0, 140, 40), [0, 140, 40], r"\b20\b"),
    ],
)
def test_a_stratum_that_lacks_is_topped_up(there, wanted, warning):
    choice = choose_stratified(pool(*there), 200)
    assert drawn(choice) == wanted
    assert any(re.search(warning, told) for told in choice.warnings)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(1, 100))
def test_what_can_be_drawn_is_drawn_once(easy, medium, hard, count):
    choice = choose_stratified(pool(easy, medium, hard), count)
    chosen = [question for each in choice.chosen.values() for question in each]
    assert len(chosen) == len(set(chosen)) == min(count, easy + medium + hard)


def test_learnable_questions_are_found_and_not_always_answered():
    found = [
        Rate("always", 5, 5, found=True),
        Rate("sometimes", 5, 4, found=True),
        Rate("never", 5, 0, found=True),
        Rate("blind", 5, 1, found=False),
    ]
    choice = choose_learnable(found)
    assert choice.questions == {"sometimes", "never"}
    assert list(choice.left_out.values()) == [1, 1]


def test_what_a_teacher_failed_comes_first():
    found = pool(0, 6, 4, sessions=5)
    choice = choose_learnable(found, preferred={"medium5", "hard0", "gone"}, count=3)
    assert {"medium5", "hard0"} < choice.questions
    assert len(choice.questions) == 3
    assert list(choice.left_out.values()) == [7]
