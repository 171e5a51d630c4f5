from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.actions.coordinates import Frame, Rounding
from docagent_rl.systems.vrag_rl.config import Variant, VragConfig


def test_paper():
    config = VragConfig.for_variant("paper")
    assert VragConfig() == config
    assert config.variant is Variant.PAPER
    assert (config.max_turns, config.extra_turn, config.assistant_turns, config.max_images) == (
        5,
        False,
        5,
        4,
    )
    assert (config.coords.frame, config.coords.rounding) == (Frame.ENCODER, Rounding.OUTWARD)
    assert config.display.snap
    assert (config.display.min_pixels, config.display.max_pixels) == (200_704, 401_408)
    assert (config.reward.alpha, config.reward.beta, config.reward.gamma, config.reward.gate) == (
        0.2,
        0.8,
        0,
        False,
    )
    assert config.prompt == "vrag_rl_paper"
    assert (config.search.top_k, config.search.pages_per_search, config.search.exclude_shown) == (
        10,
        1,
        False,
    )
    assert (config.crop.pad, config.crop.pad_val) == (0, None)
    assert not config.final_turn.notice


def test_released():
    config = VragConfig.for_variant(Variant.RELEASED)
    assert (config.max_turns, config.extra_turn, config.assistant_turns, config.max_images) == (4, True, 5, 4)
    assert (config.coords.frame, config.coords.rounding) == (Frame.DISPLAYED, Rounding.TRUNCATE)
    assert not config.display.snap
    assert (config.reward.alpha, config.reward.beta, config.reward.gamma, config.reward.gate) == (
        0.2,
        0.7,
        0.1,
        True,
    )
    assert config.prompt == "vrag_rl_released"


def test_given_keys_win_and_their_neighbours_stay():
    config = VragConfig.for_variant(
        "released", coords={"frame": "norm1000"}, display={"max_pixels": 802_816}, reward={"gate": False}
    )
    assert (config.coords.frame, config.coords.rounding) == (Frame.NORM1000, Rounding.TRUNCATE)
    assert (config.display.max_pixels, config.display.snap) == (802_816, False)
    assert (config.reward.beta, config.reward.gate) == (0.7, False)


def test_null_means_left_out():
    nulls = {
        "max_turns": None,
        "coords": {"frame": None},
        "search": {"top_k": None},
        "crop": None,
        "variant": None,
    }
    assert VragConfig.model_validate(nulls) == VragConfig()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"coords": {"frame": "raw"}}, "coords.frame"),
        ({"search": {"pages_per_search": 11}}, "top_k=10"),
        ({"reward": {"alpha": 0.5}}, "1"),
        ({"crop": {"pad": -1}}, "crop.pad"),
        ({"display": {"min_pixels": 500_000}}, "min_pixels"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        VragConfig.model_validate(overrides)
