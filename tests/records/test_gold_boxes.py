from __future__ import annotations

import pytest

from docagent_rl.errors import UserError
from docagent_rl.records.gold_boxes import gold_boxes, magnified_boxes, other_box_problems
from docagent_rl.records.record import Record
from docagent_rl.records.validation import record_problems

OWN = (0.1, 0.2, 0.5, 0.25)
OTHER = (0.0, 0.0, 0.25, 0.5)


@pytest.fixture
def two_documents(make_record):
    def make(**extra: object) -> Record:
        pages = ["report.v2#2", "report.v2#5", "a#b#1", "a#b#3"]
        return make_record(extra={"page_ids": pages, "other_boxes": {"a#b#1": [list(OTHER)]}, **extra})

    return make


def test_boxes_of_all_documents_go_by_document_and_page(two_documents):
    record = two_documents()
    assert gold_boxes(record) == {("report.v2", 5): (OWN,), ("a#b", 1): (OTHER,)}
    assert gold_boxes(Record.from_json(record.to_json())) == gold_boxes(record)
    assert record_problems(record) == []


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ({}, [("report.v2", 5), ("a#b", 1)]),
        ({"crop_required": {"5": False, "1": False}}, [("a#b", 1)]),
        ({"other_crop_required": {"a#b#1": False}}, [("report.v2", 5)]),
        ({"other_crop_required": {"a#b#1": True, "a#b#3": True}}, [("report.v2", 5), ("a#b", 1)]),
    ],
)
def test_flags_are_of_their_own_document(two_documents, flags, left):
    assert list(magnified_boxes(two_documents(**flags))) == left


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"other_boxes": [1]}, "'extra.other_boxes'"),
        ({"other_boxes": {"a": []}}, "'a'"),
        ({"other_boxes": {"a#b#1": 3}}, "'extra.other_boxes.a#b#1'"),
        ({"other_boxes": {"a#b#1": [[0, 0, 1]]}}, "'extra.other_boxes.a#b#1'"),
        ({"other_boxes": {"report.v2#5": []}}, "'evidence_boxes'"),
        ({"other_boxes": {"a#b#2": [[0, 0, 1, 1]]}}, "'a#b#2'"),
        ({"other_boxes": {"a#b#1": [[0, 0, 2, 1]]}}, "[0.0, 0.0, 2.0, 1.0]"),
        ({"other_crop_required": {"a#b#1": 1}}, "'extra.other_crop_required.a#b#1'"),
        ({"other_crop_required": {"report.v2#5": True}}, "'extra.crop_required'"),
    ],
)
def test_what_is_wrong_is_found_once_by_field_and_page(two_documents, extra, named):
    record = two_documents(**extra)
    (found,) = other_box_problems(record)
    assert named in found
    assert record_problems(record) == [found]


def test_an_error_names_the_question(two_documents):
    with pytest.raises(UserError, match=r"'q1'.*'extra\.other_boxes\.a#b#1'"):
        gold_boxes(two_documents(other_boxes={"a#b#1": None}))
