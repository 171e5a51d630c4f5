from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.systems.unidoc_rl.config import VARIANT_DEFAULTS, UniDocConfig, Variant
from docagent_rl.systems.unidoc_rl.rewards import FormatMode, UniDocWeights
from docagent_rl.systems.unidoc_rl.roi import RoiRule
from docagent_rl.systems.unidoc_rl.search_rounds import SelectRule


def test_paper():
    config = UniDocConfig.for_variant("paper")
    assert UniDocConfig() == config
    assert (config.max_turns, config.assistant_turns, config.max_images) == (10, 10, 25)
    assert (config.coords.frame, config.coords.rounding) == (Frame.DISPLAYED, Rounding.OUTWARD)
    assert config.display.snap
    assert config.max_image_tokens == 25 * 512
    assert (config.display.min_pixels, config.display.max_pixels) == (200_704, 401_408)
    assert (config.search.top_k, config.search.candidates) == (10, 3)
    assert not config.selection.implicit
    assert not config.selection.fallback
    rule = config.rule()
    assert (rule.select_rule, rule.roi_rule, rule.format_mode) == (
        SelectRule.ANY,
        RoiRule.IOU,
        FormatMode.STRICT,
    )
    assert not rule.gate
    assert not rule.implicit
    assert rule.weights == UniDocWeights(0.1, 0.1, 0.1, 0.1, 0.6)


def test_released():
    config = UniDocConfig.for_variant(Variant.RELEASED)
    assert (config.max_turns, config.assistant_turns, config.max_images) == (10, 11, 25)
    assert (config.coords.frame, config.coords.rounding) == (Frame.DISPLAYED, Rounding.TRUNCATE)
    assert not config.display.snap
    assert config.max_image_tokens >= 25 * 513
    assert config.selection.implicit
    assert config.selection.fallback
    rule = config.rule()
    assert (rule.select_rule, rule.roi_rule, rule.format_mode) == (
        SelectRule.FIRST,
        RoiRule.F1,
        FormatMode.TIERED,
    )
    assert rule.gate
    assert rule.implicit
    assert rule.weights == UniDocWeights(0.1, 0.1, 0.1, 0.1, 0.6)


def test_the_worst_episode_fits_the_published_context():
    """41,024 tokens, of which 2,048 for the prompt; 11 turns of 1,024."""
    config = UniDocConfig.for_variant("released")
    assert config.max_image_tokens + config.assistant_turns * 1024 < 38_976


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


def test_switched_off_actions_drop_their_terms():
    config = UniDocConfig.for_variant("paper", grammar={"select": False, "crop": False})
    assert config.search.candidates == 1
    assert config.rule().weights == UniDocWeights(0.1, 0.0, 0.0, 0.1, 0.6)
    only_crop = UniDocConfig.for_variant("released", grammar={"crop": False})
    assert only_crop.search.candidates == 3
    assert only_crop.rule().weights == UniDocWeights(0.1, 0.1, 0.0, 0.1, 0.6)


def test_given_keys_win_and_nulls_are_left_out():
    config = UniDocConfig.for_variant(
        "released",
        coords={"frame": "norm1000", "rounding": None},
        reward={"roi_rule": "iou", "weights": {"roi": 0.2}},
        format={"mode": "graded"},
        selection=None,
    )
    assert (config.coords.frame, config.coords.rounding) == (Frame.NORM1000, Rounding.TRUNCATE)
    assert (config.reward.roi_rule, config.reward.select_rule) == (RoiRule.IOU, SelectRule.FIRST)
    assert (config.reward.weights.roi, config.reward.weights.outcome) == (0.2, 0.6)
    assert config.format.mode is FormatMode.GRADED
    assert config.selection.implicit


def test_padding_of_the_validation():
    config = UniDocConfig.for_variant("released", crop={"pad_val": 28})
    assert config.cutting().pad == 0
    assert config.cutting(validate=True).pad == 28
    assert UniDocConfig.for_variant("released", crop={"pad": 3}).cutting(validate=True).pad == 3


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


@pytest.mark.parametrize("variant", Variant)
@pytest.mark.parametrize("grammar", [{}, {"select": False}, {"crop": False}])
def test_survives_a_round_trip_through_json(variant, grammar):
    config = UniDocConfig.for_variant(variant, grammar=grammar)
    assert UniDocConfig.model_validate_json(config.model_dump_json()) == config
