from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.errors import UserError
from docagent_rl.systems.alden.actions import FetchSyntax, Modality
from docagent_rl.systems.alden.answer_reward import AnswerMetric
from docagent_rl.systems.alden.config import VARIANT_DEFAULTS, AldenConfig, OnFull, Variant
from docagent_rl.systems.alden.env import make_grammar
from docagent_rl.systems.alden.queries import Overlap
from docagent_rl.systems.alden.rewards import TERMS, FetchCredit, SearchCredit
from docagent_rl.systems.alden.system import SYSTEM


def test_paper():
    config = AldenConfig.for_variant("paper")
    assert AldenConfig() == config
    assert (config.modality, config.prompt, config.hybrid) == (Modality.VISUAL, "alden_visual", False)
    assert (config.assistant_turns, config.max_images, config.max_image_tokens) == (6, 5, 16_000)
    assert (config.display.min_pixels, config.display.max_pixels) == (261_070, 2_508_800)
    assert config.display.max_tokens() == 3200
    assert (config.search.top_k, config.search.pages_per_search) == (1, 1)
    assert (config.reward.alpha, config.reward.eta_fetch, config.reward.failed_fetch) == (5, 0.5, 0.5)
    assert (config.reward.search, config.reward.fetch) == (SearchCredit.PRECISION, FetchCredit.PROXIMITY)
    assert (config.reward.wrong_refusal, config.reward.missed_refusal) == (0, 0)
    assert (config.answer_metric, config.numeric_metric) == (AnswerMetric.CHAR_F1,) * 2
    query = config.query_repetition
    assert (query.enabled, query.eta, query.overlap, query.n) == (True, 1, Overlap.JACCARD, 3)
    assert config.fetch_syntax is FetchSyntax.PLAIN
    assert config.image_budget.on_full is OnFull.NOTICE


def test_released():
    config = AldenConfig.for_variant(Variant.RELEASED)
    assert (config.assistant_turns, config.max_images) == (6, 15)
    assert config.display.max_pixels == 862_400
    # 18,000 tokens of response hold all images
    assert config.max_image_tokens < 18_000
    assert (config.search.top_k, config.search.pages_per_search) == (5, 3)
    assert (config.reward.wrong_refusal, config.reward.missed_refusal) == (5, 2)
    assert (config.reward.search, config.reward.fetch) == (SearchCredit.NEW_GOLD, FetchCredit.GOLD_OR_NEAR)
    assert not config.reward.unanswerable
    query = config.query_repetition
    assert (query.enabled, query.eta, query.overlap, query.n) == (False, 0.3, Overlap.CONTAINMENT, 3)
    assert config.answer_metric is AnswerMetric.WORD_F1
    assert config.fetch_syntax is FetchSyntax.ORDINAL


def test_both_variants_fill_in_the_same_keys():
    def keys(table):
        return {key: keys(value) if isinstance(value, dict) else None for key, value in table.items()}

    assert keys(VARIANT_DEFAULTS[Variant.PAPER]) == keys(VARIANT_DEFAULTS[Variant.RELEASED])


def test_given_keys_win_and_their_neighbours_stay():
    config = AldenConfig.for_variant(
        "released", modality="hybrid", reward={"eta_fetch": 0.25}, query_repetition={"enabled": True}
    )
    assert (config.reward.eta_fetch, config.reward.wrong_refusal) == (0.25, 5)
    assert (config.query_repetition.enabled, config.query_repetition.eta) == (True, 0.3)
    assert config.prompt == "alden_hybrid"


def test_null_means_left_out():
    nulls = {
        "variant": None,
        "max_turns": None,
        "search": {"top_k": None},
        "image_budget": None,
        "reward": None,
    }
    assert AldenConfig.model_validate(nulls) == AldenConfig()


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


def test_the_system():
    alden = SYSTEM
    config = alden.parse_config({"fetch": False, "modality": "hybrid"})
    assert alden.name == "alden"
    assert alden.make_grammar(config).tags == make_grammar(config).tags == ("search", "answer")
    assert (alden.max_turns(config), alden.max_images(config)) == (6, 5)
    assert alden.load_prompt(config).source.endswith("alden_hybrid.yaml")
    with pytest.raises(UserError, match=r"docagent\.env\.reward\.eta"):
        alden.parse_config({"reward": {"eta": 1}})


def test_terms_that_can_only_be_zero_are_none():
    paper, released = AldenConfig.for_variant("paper"), AldenConfig.for_variant("released")
    assert set(TERMS) - set(paper.terms) == {"wrong_refusal", "missed_refusal"}
    assert set(TERMS) - set(released.terms) == {"query_repetition"}
    without = AldenConfig.for_variant("paper", fetch=False, query_repetition={"enabled": False})
    assert set(without.terms) == {"format", "search", "answer", "total"}


def test_outcome_alone():
    rule = AldenConfig.for_variant("paper", reward={"calls": False}).reward.rule()
    calls = {"search": 1.0, "fetch": 0.5, "fetch_repetition": 1.0, "fetch_failed": 1.0}
    assert rule.turn(calls) == 0
    assert rule.turn({"answer": 0.5}) == 2.5
    assert rule.turn({**calls, "format": -1.0}) == -1
