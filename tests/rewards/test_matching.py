from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.matching import best_matching


def brute_force(table):
    n, m = len(table), len(table[0])
    if n > m:
        return brute_force([list(column) for column in zip(*table, strict=True)])
    return max(
        sum(table[row][column] for row, column in enumerate(columns))
        for columns in itertools.permutations(range(m), n)
    )


shapes = st.tuples(st.integers(1, 5), st.integers(1, 5))
values = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
tables = shapes.flatmap(
    lambda shape: st.lists(
        st.lists(values, min_size=shape[1], max_size=shape[1]), min_size=shape[0], max_size=shape[0]
    )
)


@given(tables)
def test_against_all_matchings(table):
    assert best_matching(table) == pytest.approx(brute_force(table), abs=1e-12)


def test_a_greedy_choice_would_be_wrong():
    assert best_matching([[1.0, 0.9], [0.9, 0.0]]) == pytest.approx(1.8)


@pytest.mark.parametrize("table", [[], [[]], [[], []]])
def test_nothing_to_pair(table):
    assert best_matching(table) == 0.0


@pytest.mark.parametrize("table", [[[-1.0, 0.0]], [[float("nan"), 0.0]], [[float("inf"), 0.0]]])
def test_scores_that_are_none(table):
    with pytest.raises(ValueError):
        best_matching(table)


def test_large_tables():
    """In cubic time at most: trying assignments would not end."""
    table = np.random.default_rng(0).random((300, 600))
    total = best_matching(table)
    assert 299 < total <= table.max(axis=1).sum()
