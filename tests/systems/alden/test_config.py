from __future__ import annotations

from operator import attrgetter

import pytest
from pydantic import ValidationError

from docagent_rl.systems.alden.config import AldenConfig
from docagent_rl.systems.alden.rewards import TERMS

# as published, as released; what is paid is worked out by hand in `tests/players`
SETTINGS = {
    "assistant_turns": (6, 6),
    "max_images": (5, 15),
    "display.min_pixels": (261_070, 261_070),
    "display.max_pixels": (2_508_800, 862_400),
    "query_repetition.eta": (1, 0.3),
    "query_repetition.overlap": ("jaccard", "containment"),
    "query_repetition.n": (3, 3),
    "image_budget.on_full": ("notice", "end"),
}


@pytest.mark.parametrize("column", [0, 1])
def test_variants(column):
    config = AldenConfig.for_variant(["paper", "released"][column])
    assert {key: attrgetter(key)(config) for key in SETTINGS} == {k: v[column] for k, v in SETTINGS.items()}
    # 16,000 and 18,000 tokens of response hold all images
    assert config.max_image_tokens <= (16_000, 18_000)[column]


def test_room_bounds_the_images():
    assert AldenConfig.for_variant("released", image_budget={"images": 10}).max_images == 10
    assert AldenConfig.for_variant("paper", image_budget={"image_tokens": 5000}).max_image_tokens == 5000
    assert AldenConfig.for_variant("paper", max_turns=1).max_images == 0


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"search": {"pages_per_search": 2}}, "top_k=1"),
        ({"reward": {"eta_fetch": -1}}, "reward.eta_fetch"),
        ({"reward": {"alpha": float("nan")}}, "reward.alpha"),
        ({"query_repetition": {"n": 0}}, "query_repetition.n"),
        ({"display": {"max_pixels": 1000}}, "min_pixels"),
        ({"ocr_tokens": 0}, "ocr_tokens"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        AldenConfig.model_validate(overrides)


def test_terms_that_can_only_be_zero_are_none():
    paper, released = AldenConfig.for_variant("paper"), AldenConfig.for_variant("released")
    assert set(TERMS) - set(paper.terms) == {"wrong_refusal", "missed_refusal"}
    assert set(TERMS) - set(released.terms) == {"query_repetition"}
    without = AldenConfig.for_variant("paper", fetch=False, query_repetition={"enabled": False})
    assert set(without.terms) == {"format", "search", "answer", "total"}
