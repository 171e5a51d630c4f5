from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.errors import UserError
from docagent_rl.synth.names import MAX_DOCUMENTS, NAMES_PER_DOCUMENT, NamePool

INDEX = st.integers(0, MAX_DOCUMENTS - 1)


@settings(max_examples=30)
@given(st.integers(), st.tuples(INDEX, INDEX))
def test_two_documents_share_no_name(seed, pair):
    names = {name for index in pair for name in NamePool(seed).block(index)}
    assert len(names) == len(set(pair)) * NAMES_PER_DOCUMENT


def test_all_names_of_a_pool_differ():
    pool = NamePool(3)
    blocks = [pool.block(index) for index in range(MAX_DOCUMENTS)]
    assert len({name for block in blocks for name in block}) == MAX_DOCUMENTS * NAMES_PER_DOCUMENT


@pytest.mark.parametrize("index", [-1, MAX_DOCUMENTS])
def test_the_pool_ends(index):
    with pytest.raises(UserError, match=str(MAX_DOCUMENTS)):
        NamePool(0).block(index)
