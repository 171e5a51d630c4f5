from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.errors import UserError
from docagent_rl.synth.names import MAX_DOCUMENTS, NAMES_PER_DOCUMENT, NamePool


@given(st.integers(), st.integers(0, MAX_DOCUMENTS - 1), st.integers(0, MAX_DOCUMENTS - 1))
def test_two_documents_share_no_name(seed: int, first: int, second: int) -> None:
    pool = NamePool(seed)
    names = set(pool.block(first)) | set(pool.block(second))
    assert len(names) == (1 if first == second else 2) * NAMES_PER_DOCUMENT


def test_all_names_of_a_pool_differ() -> None:
    pool = NamePool(3)
    names = {name for index in range(MAX_DOCUMENTS) for name in pool.block(index)}
    assert len(names) == MAX_DOCUMENTS * NAMES_PER_DOCUMENT


def test_names_depend_on_the_seed_alone() -> None:
    assert NamePool(7).block(4) == NamePool(7).block(4)
    assert NamePool(7).block(4) != NamePool(8).block(4)


@pytest.mark.parametrize("index", [-1, MAX_DOCUMENTS])
def test_the_pool_ends(index: int) -> None:
    with pytest.raises(UserError, match=str(MAX_DOCUMENTS)):
        NamePool(0).block(index)
