from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.systems.unidoc_rl.config import UniDocConfig


@pytest.mark.parametrize(
    ("variant", "turns", "rounding", "snap", "tokens"),
    [("paper", 10, Rounding.OUTWARD, True, 512), ("released", 11, Rounding.TRUNCATE, False, 513)],
)
def test_variants(variant, turns, rounding, snap, tokens):
    config = UniDocConfig.for_variant(variant)
    assert (config.max_turns, config.assistant_turns, config.max_images) == (10, turns, 25)
    coords, search, rule = config.coords, config.search, config.reward
    assert (coords.frame, coords.rounding, config.display.snap) == (Frame.DISPLAYED, rounding, snap)
    assert (search.top_k, search.candidates) == (10, 3)
    # all else of the rule is recomputed in `tests/players`
    assert (rule.pseudo_positive, rule.abstention, rule.iou_threshold) == (True, True, 0.5)
    # the published context is 41,024 tokens, of which 2,048 for the prompt; a turn has 1,024
    assert 25 * tokens <= config.max_image_tokens < 38_976 - turns * 1024


@pytest.mark.parametrize(
    ("overrides", "images"),
    [
        ({"max_turns": 4}, 9),
        ({"search": {"candidates": 5}}, 27),
        ({"max_turns": 1}, 0),
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


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"search": {"candidates": 11}}, "top_k=10"),
        ({"reward": {"iou_threshold": 0}}, "iou_threshold"),
        ({"grammar": {"select": False}, "search": {"candidates": 3}}, r"search\.candidates=1"),
        ({"grammar": {"select": False}, "reward": {"weights": {"select": 0.1}}}, "weights.select=0"),
        ({"grammar": {"crop": False}, "reward": {"weights": {"roi": 0.1}}}, "weights.roi=0"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        UniDocConfig.model_validate(overrides)
