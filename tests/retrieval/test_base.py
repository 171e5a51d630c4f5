from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.errors import UserError
from docagent_rl.retrieval.base import check_queries, top_rows


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.5]), max_size=40), st.integers(1, 50))
def test_rows_are_those_of_a_full_sort(scores, top_k):
    ranked = sorted(
        (row for row, score in enumerate(scores) if score > 0), key=lambda row: (-scores[row], row)
    )
    assert top_rows(np.array(scores, dtype=np.float32), top_k).tolist() == ranked[:top_k]


@pytest.mark.parametrize("top_k", [0, 1.5, True, None])
def test_top_k_is_a_whole_number_from_one(top_k):
    with pytest.raises(UserError, match="top_k"):
        check_queries(["a"], top_k)


@pytest.mark.parametrize("queries", ["one query", [b"bytes"], [None]])
def test_queries_are_a_sequence_of_strings(queries):
    with pytest.raises(TypeError):
        check_queries(queries, 1)
