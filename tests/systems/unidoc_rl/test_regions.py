from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.systems.unidoc_rl.regions import gold_regions

BOX = (0.1, 0.2, 0.5, 0.6)
OTHER = (0.0, 0.0, 1.0, 1.0)


def test_pages_with_boxes_have_to_be_magnified(record):
    sample = record(evidence_boxes={3: (BOX, OTHER), 4: ()})
    assert gold_regions(sample) == {PageRef("K", 3): (BOX, OTHER)}
    assert gold_regions(record()) == {}


@pytest.mark.parametrize("flags", [{3: False, 4: True}, {"3": False}, {"3": False, "9": True}])
def test_unless_a_flag_says_otherwise(record, flags):
    sample = record(evidence_boxes={3: (BOX,), 4: (OTHER,)}, extra={"crop_required": flags})
    assert gold_regions(sample) == {PageRef("K", 4): (OTHER,)}


def test_a_flag_without_boxes_requires_nothing_that_could_be_scored(record):
    assert gold_regions(record(extra={"crop_required": {"3": True}})) == {}
    assert gold_regions(record(extra={"crop_required": None})) == {}


def test_pages_of_further_documents_have_boxes_and_flags_of_their_own(record):
    extra = {
        "page_ids": ["K#3", "M#2", "M#7"],
        "other_boxes": {"M#2": [list(BOX)], "M#7": [list(OTHER)]},
        "crop_required": {"2": False},
        "other_crop_required": {"M#7": False},
    }
    sample = record(evidence_boxes={3: (OTHER,)}, extra=extra)
    assert gold_regions(sample) == {PageRef("K", 3): (OTHER,), PageRef("M", 2): (BOX,)}


def test_boxes_off_a_page_of_a_further_document(record):
    sample = record(extra={"other_boxes": {"M#2": [[0.5, 0.2, 0.1, 0.6]]}})
    with pytest.raises(UserError, match=r"'q1', field 'extra\.other_boxes'.*M#2"):
        gold_regions(sample)


@pytest.mark.parametrize("flags", [[3], {"K#3": True}, {"3": 1}, {"-3": True}, {"3": None}, "3"])
def test_malformed_flags(record, flags):
    with pytest.raises(UserError, match=r"'q1'.*crop_required"):
        gold_regions(record(evidence_boxes={3: (BOX,)}, extra={"crop_required": flags}))


@pytest.mark.parametrize(
    "box", [(100.0, 100.0, 900.0, 500.0), (0.5, 0.2, 0.1, 0.6), (0.1, 0.2, 0.1, 0.6), (float("nan"), 0, 1, 1)]
)
def test_boxes_off_the_page(record, box):
    with pytest.raises(UserError, match=r"'q1'.*evidence_boxes.*K#3"):
        gold_regions(record(evidence_boxes={3: (box,)}))
