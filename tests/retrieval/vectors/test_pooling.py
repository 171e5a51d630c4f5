from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.retrieval.vectors.pooling import pooled


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def test_similar_vectors_are_joined() -> None:
    rng = np.random.default_rng(0)
    topics = _unit(rng.standard_normal((3, 32)))
    order = np.array([2, 0, 1, 0, 2, 1, 0, 2, 1])
    vectors = _unit(topics[order] + rng.standard_normal((9, 32)) * 0.01)
    found = pooled(vectors, 3)
    np.testing.assert_allclose(found, topics[[2, 0, 1]], atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)


@settings(max_examples=40)
@given(st.integers(0, 60), st.integers(1, 9), st.integers(0, 99))
def test_one_in_so_many_is_left(count: int, factor: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    found = pooled(vectors, factor)
    assert found.dtype == np.float32
    assert len(found) <= max(count // factor, min(count, 1))
    assert bool(len(found)) == bool(count)
    assert np.isfinite(found).all()
    if factor == 1:
        assert found is vectors


def test_opposite_vectors_leave_numbers() -> None:
    found = pooled(np.array([[1, 0], [-1, 0]], np.float32), 2)
    assert found.tolist() == [[0, 0]]


@pytest.mark.parametrize("factor", [2, 3])
def test_vectors_that_are_all_the_same_become_one_each_time(factor: int) -> None:
    found = pooled(np.tile(_unit(np.ones((1, 4))), (12, 1)), factor)
    assert found.tolist() == [[0.5] * 4]
