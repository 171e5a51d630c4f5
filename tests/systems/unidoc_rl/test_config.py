from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.systems.unidoc_rl.config import VARIANT_DEFAULTS, UniDocConfig, Variant
from docagent_rl.systems.unidoc_rl.rewards import FormatMode, UniDocReward, UniDocWeights
from docagent_rl.systems.unidoc_rl.roi import RoiRule
from docagent_rl.systems.unidoc_rl.search_rounds import SelectRule

SAME = {"weights": UniDocWeights(0.1, 0.1, 0.1, 0.1, 0.6), "pseudo_positive": True, "abstention": True}
RULES = {
    "paper": UniDocReward(
        gate=False,
        select_rule=SelectRule.ANY,
        select_capped=True,
        roi_rule=RoiRule.IOU,
        iou_threshold=0.5,
        implicit=False,
        format_mode=FormatMode.STRICT,
        **SAME,
    ),
    "released": UniDocReward(
        gate=True,
        select_rule=SelectRule.FIRST,
        select_capped=False,
        roi_rule=RoiRule.F1,
        iou_threshold=0.5,
        implicit=True,
        format_mode=FormatMode.TIERED,
        **SAME,
    ),
}


@pytest.mark.parametrize(
    ("variant", "turns", "rounding", "snap", "tokens"),
    [("paper", 10, Rounding.OUTWARD, True, 512), ("released", 11, Rounding.TRUNCATE, False, 513)],
)
def test_variants(variant, turns, rounding, snap, tokens):
    config = UniDocConfig.for_variant(variant)
    assert (config.max_turns, config.assistant_turns, config.max_images) == (10, turns, 25)
    assert (config.coords.frame, config.coords.rounding) == (Frame.DISPLAYED, rounding)
    display = config.display
    assert (display.snap, display.min_pixels, display.max_pixels) == (snap, 200_704, 401_408)
    assert (config.search.top_k, config.search.candidates) == (10, 3)
    assert config.rule() == RULES[variant]
    # the published context is 41,024 tokens, of which 2,048 for the prompt; a turn has 1,024
    assert 25 * tokens <= config.max_image_tokens < 38_976 - turns * 1024


@pytest.mark.parametrize(
    ("overrides", "images"),
    [
        ({"max_turns": 4}, 9),
        ({"image_limit": 0}, 3),
        ({"search": {"candidates": 5}}, 27),
        ({"max_turns": 1}, 0),
        ({"grammar": {"select": False}}, 9),
    ],
)
def test_max_images(overrides, images):
    assert UniDocConfig.for_variant("paper", **overrides).max_images == images


def test_the_variants_differ_in_the_same_keys():
    paper, released = (VARIANT_DEFAULTS[variant] for variant in Variant)
    assert paper.keys() == released.keys()
    assert all(paper[key].keys() == released[key].keys() for key in paper if isinstance(paper[key], dict))


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
    assert config.rule().weights == UniDocWeights(*weights)
    assert UniDocConfig.model_validate_json(config.model_dump_json()) == config


def test_given_keys_win_and_nulls_are_left_out():
    config = UniDocConfig.for_variant(
        "released",
        coords={"frame": "norm1000", "rounding": None},
        reward={"roi_rule": "iou", "weights": {"roi": 0.2}},
        selection=None,
    )
    assert (config.coords.frame, config.coords.rounding) == (Frame.NORM1000, Rounding.TRUNCATE)
    assert (config.reward.roi_rule, config.reward.select_rule) == (RoiRule.IOU, SelectRule.FIRST)
    assert (config.reward.weights.roi, config.reward.weights.outcome) == (0.2, 0.6)
    assert config.selection.implicit


@pytest.mark.parametrize(
    ("crop", "pads"), [({"pad_val": 28}, (0, 28)), ({"pad": 3}, (3, 3)), ({"pad": 3, "pad_val": 0}, (3, 0))]
)
def test_padding_of_the_validation(crop, pads):
    config = UniDocConfig.for_variant("released", crop=crop)
    assert tuple(config.cutting(validate=validate).pad for validate in (False, True)) == pads


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"search": {"candidates": 11}}, "top_k=10"),
        ({"search": {"pages_per_search": 2}}, "search.pages_per_search"),
        ({"reward": {"weights": {"roi": -1}}}, "reward.weights.roi"),
        ({"reward": {"iou_threshold": 0}}, "iou_threshold"),
        ({"grammar": {"select": False}, "search": {"candidates": 3}}, r"search\.candidates=1"),
        ({"grammar": {"select": False}, "reward": {"weights": {"select": 0.1}}}, "weights.select=0"),
        ({"grammar": {"crop": False}, "reward": {"weights": {"roi": 0.1}}}, "weights.roi=0"),
        ({"crop": {"max_boxes": 0}}, "crop.max_boxes"),
        ({"image_limit": -1}, "image_limit"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        UniDocConfig.model_validate(overrides)
