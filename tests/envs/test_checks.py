from __future__ import annotations

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.checks import checked_gold, references


def test_gold_pages_may_lie_in_several_documents_or_be_none_when_allowed(store, make_sample):
    gold = checked_gold(make_sample(), store, allow_empty=False)
    assert gold == {PageRef("K", 3), PageRef("K", 4), PageRef("M", 1)}
    assert checked_gold(make_sample(extra={}, evidence_pages=()), store, allow_empty=True) == frozenset()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"doc_id": "Z"}, "'q1'.*'Z'"),
        ({"extra": {"page_ids": ["Z#1"]}}, "'q1'.*'Z'"),
        ({"extra": {"page_ids": ["K#6"]}}, "'q1'.* 6 .*'K'.* 5 "),
        ({"extra": {}, "evidence_pages": ()}, "'q1'.*allow_empty_gold"),
        ({"extra": {"page_ids": ["K"]}}, "page_ids"),
    ],
)
def test_questions_that_cannot_be_played(store, make_sample, changes, message):
    with pytest.raises(UserError, match=message):
        checked_gold(make_sample(**changes), store, allow_empty=False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"answers": ("blue", "azure")}, ("blue", "azure")),
        ({"answers": ("a", "b"), "answer_format": "List"}, ("a; b",)),
        ({"answers": ("a", "b"), "answer_format": "list/extractive"}, ("a; b",)),
        ({"answers": (), "answerable": False}, ("Not answerable",)),
    ],
)
def test_references(make_sample, changes, expected):
    assert references(make_sample(**changes)) == expected


def test_no_reference(make_sample):
    with pytest.raises(UserError, match="'q1'"):
        references(make_sample(answers=(), answerable=None))
