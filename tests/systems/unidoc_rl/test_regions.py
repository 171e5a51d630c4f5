from __future__ import annotations

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.systems.unidoc_rl.regions import gold_regions

BOX = (0.1, 0.2, 0.5, 0.6)
OTHER = (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("boxes", "extra", "regions"),
    [
        ({3: (BOX, OTHER), 4: ()}, {}, {"K#3": (BOX, OTHER)}),
        ({}, {"crop_required": None}, {}),
        # a flag without boxes requires nothing that could be scored
        ({}, {"crop_required": {"3": True}}, {}),
        ({3: (BOX,), 4: (OTHER,)}, {"crop_required": {3: False, 4: True}}, {"K#4": (OTHER,)}),
        ({3: (BOX,), 4: (OTHER,)}, {"crop_required": {"3": False, "9": True}}, {"K#4": (OTHER,)}),
        # pages of further documents have boxes and flags of their own
        (
            {3: (OTHER,)},
            {
                "page_ids": ["K#3", "M#2", "M#7"],
                "other_boxes": {"M#2": [list(BOX)], "M#7": [list(OTHER)]},
                "crop_required": {"2": False},
                "other_crop_required": {"M#7": False},
            },
            {"K#3": (OTHER,), "M#2": (BOX,)},
        ),
    ],
)
def test_pages_with_boxes_have_to_be_magnified_unless_a_flag_says_otherwise(record, boxes, extra, regions):
    expected = {PageRef.parse(page): drawn for page, drawn in regions.items()}
    assert gold_regions(record(evidence_boxes=boxes, extra=extra)) == expected


@pytest.mark.parametrize("flags", [[3], {"K#3": True}, {"3": 1}, {"-3": True}, {"3": None}, "3"])
def test_malformed_flags(record, flags):
    with pytest.raises(UserError, match=r"'q1'.*crop_required"):
        gold_regions(record(evidence_boxes={3: (BOX,)}, extra={"crop_required": flags}))


@pytest.mark.parametrize(
    "box", [(100.0, 100.0, 900.0, 500.0), (0.5, 0.2, 0.1, 0.6), (0.1, 0.2, 0.1, 0.6), (float("nan"), 0, 1, 1)]
)
def test_boxes_off_the_page(record, box):
    with pytest.raises(UserError, match=r"'q1'.*'evidence_boxes'.*K#3"):
        gold_regions(record(evidence_boxes={3: (box,)}))
    with pytest.raises(UserError, match=r"'q1'.*extra\.other_boxes.*M#2"):
        gold_regions(record(extra={"other_boxes": {"M#2": [list(box)]}}))
