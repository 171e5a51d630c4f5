"""Strata and rules, with counts by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.collect.curation import (
    Rate,
    Stratum,
    choose_learnable,
    choose_stratified,
    quotas,
    rates,
)
from docagent_rl.lab.collect.filters import Scoring
from tests.lab.collect.cases import case

STRATA = (Stratum.EASY, Stratum.MEDIUM, Stratum.HARD)


def pool(*counts, trajectories=4):
    """Return a number of easy, medium and hard questions."""
    return [
        Rate(f"{stratum.value}{n}", trajectories, right, found=True)
        for stratum, count, right in zip(STRATA, counts, (trajectories, 1, 0), strict=True)
        for n in range(count)
    ]


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
    assert quotas(count) == dict(zip(STRATA, wanted, strict=True))


def test_pass_rates_count_right_trajectories_and_pages_found():
    cases = [
        case("a", 0),
        case("a", 1, prediction="red", shown=frozenset()),
        case("b", 0, gold=frozenset({"d#3", "d#4"})),
        case("c", 0, gold=None, prediction="red"),
    ]
    found = rates(cases, Scoring.LIKENESS, 0.7)
    assert found == [
        Rate("a", 2, 1, found=True),
        Rate("b", 1, 1, found=False),
        Rate("c", 1, 0, found=False),
    ]
    assert [rate.stratum for rate in found] == [Stratum.MEDIUM, Stratum.EASY, Stratum.HARD]


def test_a_stratum_that_lacks_stays_open():
    choice = choose_stratified(pool(300, 1400, 500), 2048)
    assert [len(choice.chosen[stratum]) for stratum in STRATA] == [205, 1400, 409]
    assert choice.warnings == ["medium: 1434 questions wanted, but only 1400 available"]


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(1, 100))
def test_what_can_be_drawn_is_drawn_once(easy, medium, hard, count):
    assert sum(quotas(count).values()) == count
    choice = choose_stratified(pool(easy, medium, hard), count)
    assert choice.questions == choose_stratified(pool(easy, medium, hard), count).questions
    there = dict(zip(STRATA, (easy, medium, hard), strict=True))
    for stratum, wanted in quotas(count).items():
        chosen = choice.chosen[stratum]
        assert len(chosen) == len(set(chosen)) == min(wanted, there[stratum])


def test_learnable_questions_are_found_and_not_always_answered():
    rights = {"always": 5, "sometimes": 4, "never": 0, "blind": 1}
    found = [Rate(name, 5, right, found=name != "blind") for name, right in rights.items()]
    choice = choose_learnable(found)
    assert choice.questions == {"sometimes", "never"}
    assert list(choice.left_out.values()) == [1, 1]


def test_what_a_teacher_failed_comes_first():
    found = pool(0, 6, 4, trajectories=5)
    choice = choose_learnable(found, preferred={"medium5", "hard0", "gone"}, count=3)
    assert {"medium5", "hard0"} < choice.questions
    assert len(choice.questions) == 3
    assert list(choice.left_out.values()) == [7]
