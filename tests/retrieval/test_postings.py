from __future__ import annotations

import bm25s
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.retrieval.postings import Postings, are_sorted

WORDS = 12
PAGES = st.lists(st.lists(st.integers(0, WORDS - 1), max_size=9), min_size=1, max_size=9)


def built(pages: list[list[int]]) -> bm25s.BM25:
    index = bm25s.BM25(method="lucene", backend="numpy")
    index.index((pages, {str(word): word for word in range(WORDS)}), show_progress=False)
    return index


@given(pages=PAGES.filter(any), query=st.lists(st.integers(0, WORDS - 1), max_size=6), data=st.data())
def test_every_range_has_the_scores_that_bm25s_gives_all_pages(pages, query, data):
    index = built(pages)
    assert are_sorted(index.scores)
    start = data.draw(st.integers(0, len(pages)))
    end = data.draw(st.integers(start, len(pages)))
    expected = index.get_scores_from_ids(query)[start:end]
    found = Postings(index.scores).scores(query, start, end)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_rows_that_do_not_ascend_in_a_token_are_seen():
    starts = np.array([0, 2, 4])
    for rows, ascend in (([0, 3, 1, 2], True), ([0, 3, 2, 1], False), ([0, 0, 1, 2], False)):
        assert are_sorted({"indices": np.array(rows), "indptr": starts}) is ascend
