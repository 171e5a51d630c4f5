from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.documents import PageRef, PageRegion
from docagent_rl.errors import UserError


@pytest.mark.parametrize("page", [0, -1, True, 1.0, "1", None])
def test_pages_are_whole_numbers_from_one(page):
    with pytest.raises(UserError, match="'doc'"):
        PageRef("doc", page)


@given(st.text(min_size=1), st.integers(1, 10**6))
def test_parse_reads_what_str_writes(doc_id, page):
    ref = PageRef(doc_id, page)
    assert str(ref) == f"{doc_id}#{page}"
    assert PageRef.parse(str(ref)) == ref
    assert pickle.loads(pickle.dumps(ref)) == ref


@pytest.mark.parametrize("text", ["doc", "doc#", "#3", "doc#x", "doc#-1", "doc#²", "doc#0"])
def test_parse_refuses_other_text(text):
    with pytest.raises(UserError):
        PageRef.parse(text)


@pytest.mark.parametrize(
    "box", [(0.5, 0, 0.5, 1), (0.6, 0, 0.5, 1), (-0.1, 0, 1, 1), (0, 0, 1, 1.01), (0, math.nan, 1, 1)]
)
def test_a_region_lies_inside_its_page(box):
    assert PageRegion(PageRef("d", 1), (0, 0.25, 1, 0.5)).box == (0, 0.25, 1, 0.5)
    with pytest.raises(UserError, match="d#1"):
        PageRegion(PageRef("d", 1), box)
