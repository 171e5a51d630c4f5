"""Gold boxes of a question; `tests/samples/test_sample.py` covers flags that leave out pages."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.env import gold_regions


@pytest.mark.parametrize(
    ("overrides", "images"),
    [
        ({"max_turns": 4}, 9),
        ({"search": {"candidates": 5}}, 27),
        ({"grammar": {"select": False}}, 9),
    ],
)
def test_max_images(overrides, images):
    assert UniDocConfig.for_variant("paper", **overrides).max_images == images


@pytest.mark.parametrize(
    ("grammar", "candidates", "weights"),
    [
        ({"select": False, "crop": False}, 1, (0.1, 0.0, 0.0, 0.1, 0.6)),
        ({"crop": False}, 3, (0.1, 0.1, 0.0, 0.1, 0.6)),
    ],
)
def test_switched_off_actions_drop_their_terms(grammar, candidates, weights):
    config = UniDocConfig.for_variant("released", grammar=grammar)
    assert config.search.candidates == candidates
    assert tuple(config.reward.weights.model_dump().values()) == weights
    assert UniDocConfig.model_validate_json(config.model_dump_json()) == config


BOX = (0.1, 0.2, 0.5, 0.6)
OTHER = (0.0, 0.0, 1.0, 1.0)
FURTHER = {
    "other_boxes": {"M#2": [list(BOX)], "M#7": [list(OTHER)]},
    "crop_required": {"4": False},
    "other_crop_required": {"M#7": False},
}


def test_pages_with_boxes_have_to_be_magnified_unless_a_flag_says_otherwise(make_sample):
    sample = make_sample(evidence_boxes={3: (BOX, OTHER), 4: (BOX,), 5: ()}, extra=FURTHER)
    assert gold_regions(sample) == {PageRef("K", 3): (BOX, OTHER), PageRef("M", 2): (BOX,)}
    assert gold_regions(make_sample(extra={"crop_required": {"3": True}})) == {}


@pytest.mark.parametrize(
    "box", [(100.0, 100.0, 900.0, 500.0), (0.5, 0.2, 0.1, 0.6), (float("nan"), 0, 1, 1)]
)
def test_boxes_off_the_page(make_sample, box):
    with pytest.raises(UserError, match=r"'q1'.*'evidence_boxes'.*K#3"):
        gold_regions(make_sample(evidence_boxes={3: (box,)}))
    with pytest.raises(UserError, match=r"'q1'.*extra\.other_boxes.*M#2"):
        gold_regions(make_sample(extra={"other_boxes": {"M#2": [list(box)]}}))
