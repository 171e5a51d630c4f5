from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.systems.vrag_rl.config import VragConfig
from docagent_rl.systems.vrag_rl.rewards import VragReward


@pytest.mark.parametrize(
    ("variant", "turns", "coords", "snap", "weights"),
    [
        ("paper", (5, 5), (Frame.ENCODER, Rounding.OUTWARD), True, (0.2, 0.8, 0.0, False)),
        ("released", (4, 5), (Frame.DISPLAYED, Rounding.TRUNCATE), False, (0.2, 0.7, 0.1, True)),
    ],
)
def test_variants(variant, turns, coords, snap, weights):
    config = VragConfig.for_variant(variant)
    assert (config.max_turns, config.assistant_turns) == turns
    assert (config.coords.frame, config.coords.rounding, config.display.snap) == (*coords, snap)
    assert config.reward.rule() == VragReward(*weights)
    assert (config.search.top_k, config.search.pages_per_search, config.max_images) == (10, 1, 4)
    assert config.max_image_tokens == 4 * config.display.max_tokens()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"coords": {"frame": "raw"}}, "coords.frame"),
        ({"search": {"pages_per_search": 11}}, "top_k=10"),
        ({"reward": {"alpha": 0.5}}, r"0\.5"),
        ({"crop": {"pad": -1}}, "crop.pad"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        VragConfig.model_validate(overrides)
