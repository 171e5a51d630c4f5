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
    assert (config.coords.frame, config.coords.rounding) == coords
    display = config.display
    assert (display.snap, display.min_pixels, display.max_pixels) == (snap, 200_704, 401_408)
    assert config.reward.rule() == VragReward(*weights)
    assert (config.search.top_k, config.search.pages_per_search, config.max_images) == (10, 1, 4)
    assert config.max_image_tokens == 4 * display.max_tokens()


def test_given_keys_win_and_their_neighbours_stay():
    config = VragConfig.for_variant("released", coords={"frame": "norm1000"}, reward={"gate": False})
    assert (config.coords.frame, config.coords.rounding) == (Frame.NORM1000, Rounding.TRUNCATE)
    assert (config.reward.beta, config.reward.gate) == (0.7, False)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"coords": {"frame": "raw"}}, "coords.frame"),
        ({"search": {"pages_per_search": 11}}, "top_k=10"),
        ({"reward": {"alpha": 0.5}}, r"0\.5"),
        ({"crop": {"pad": -1}}, "crop.pad"),
        ({"display": {"min_pixels": 500_000}}, "min_pixels"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        VragConfig.model_validate(overrides)
