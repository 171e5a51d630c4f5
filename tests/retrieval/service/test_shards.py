from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.rows import PageRows
from docagent_rl.retrieval.service.shards import check_parts, merged


@settings(max_examples=50)
@given(st.lists(st.integers(1, 9), max_size=12), st.integers(1, 15))
def test_parts_are_whole_documents_one_after_the_other(sizes, of):
    rows = PageRows([f"{n:02}" for n in range(len(sizes))], sizes)
    spans = rows.parts(of)
    assert len(spans) == of
    assert (spans[0][0], spans[-1][1]) == (0, len(rows))
    assert all(first[1] == second[0] for first, second in pairwise(spans))
    borders = {0, *(rows.span(doc_id)[1] for doc_id in rows.doc_ids)}
    assert all(start in borders and end in borders for start, end in spans)
    longest = max(end - start for start, end in spans)
    assert longest <= -(-len(rows) // of) + max(sizes, default=0)


@pytest.mark.parametrize("of", [1, 2, 3, 5])
def test_the_best_of_all_parts_are_the_best_of_the_whole(bm25, of):
    parts = [bm25.part(number, of) for number in range(of)]
    queries = ["cat", "birds sing", "grow the table", "nothing at all"]
    for top_k in (1, 2, 10):
        for exclude in ((), {PageRef("animals", 2)}):
            answers = [part.search(queries, top_k=top_k, exclude=exclude) for part in parts]
            assert merged(answers, top_k) == bm25.search(queries, top_k=top_k, exclude=exclude)


def test_a_part_knows_its_documents_too(bm25):
    part = bm25.part(2, 3)
    assert part.search(["cat"], doc_id="animals", top_k=5) == bm25.search(["cat"], doc_id="animals", top_k=5)
    # and of the whole corpus its own alone
    assert {hit.ref.doc_id for hit in part.search(["the a cat birds grow table"], top_k=99)[0]} == {"numbers"}


def test_retrievers_that_cannot_be_split_are_refused(bm25):
    config = RetrieverConfig(backend="ray", service={"shards": 2})
    check_parts(bm25, config, "docagent.retriever")
    with pytest.raises(UserError, match=r"docagent\.retriever\.service\.shards=2"):
        check_parts(object(), config, "docagent.retriever")
