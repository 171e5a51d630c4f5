"""nDCG of graded relevance, by hand and by a slow version."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.relevance import graded_ndcg
from tests.lab.eval.metrics import slow

LOG3 = math.log2(3)


@pytest.mark.parametrize(
    ("grades", "ranked", "value"),
    [
        ({"a": 2, "b": 1}, ["a", "b"], 1.0),
        ({"a": 2, "b": 1}, ["b", "a"], (1 + 2 / LOG3) / (2 + 1 / LOG3)),
        ({"a": 2, "b": 1}, ["x", "y", "b"], (1 / 2) / (2 + 1 / LOG3)),
        ({"a": 2}, ["x"] * 10 + ["a"], 2 / LOG3 / 2),  # an item ranked again takes no rank
        ({"a": 2}, [*"0123456789", "a"], 0.0),
        ({"a": 1}, [], 0.0),
        ({"a": 0}, ["a"], None),
        ({}, ["a"], None),
    ],
)
def test_gains_are_grades(grades, ranked, value):
    assert graded_ndcg(grades, ranked) == (value if value is None else pytest.approx(value))


def test_more_relevant_pages_than_ranks_can_still_be_perfect():
    grades = {str(number): 1 for number in range(30)}
    assert graded_ndcg(grades, list("0123456789")) == pytest.approx(1.0)


ITEMS = st.sampled_from("abcdef")


@given(
    st.dictionaries(ITEMS, st.integers(0, 2), max_size=5),
    st.lists(ITEMS, max_size=8),
    st.integers(1, 4),
)
def test_it_is_the_slow_one(grades, ranked, cutoff):
    found = graded_ndcg(grades, ranked, cutoff)
    wanted = slow.graded_ndcg(grades, ranked, cutoff)
    assert found == (None if wanted is None else pytest.approx(wanted))
