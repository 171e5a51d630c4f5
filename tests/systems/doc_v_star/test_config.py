from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.rewards.answer_kinds import IdentifierRule
from docagent_rl.systems.doc_v_star.config import DocVStarConfig, Variant
from docagent_rl.systems.doc_v_star.rewards import DocVStarReward, HitRule


def test_paper():
    config = DocVStarConfig()
    assert config == DocVStarConfig.for_variant("paper")
    assert config.variant is Variant.PAPER
    assert (config.max_turns, config.assistant_turns) == (8, 8)
    assert (config.display.long_side, config.display.short_side, config.display.landscape) == (
        1024,
        768,
        False,
    )
    assert config.reward.rule() == DocVStarReward(0.6, 0.3, 0.1)
    assert (config.reward.beta2, config.reward.hits) == (2, HitRule.VISITED)
    assert (config.answer.threshold, config.answer.identifier_rule) == (0.5, IdentifierRule.ALL)
    assert (config.fetch.max_pages, config.retrieval.query_chars, config.memory.summary_chars) == (
        4,
        512,
        1500,
    )
    assert (config.context_tokens, config.reserve_tokens) == (None, 2048)
    assert config.prompt == "doc_v_star_paper"


@pytest.mark.parametrize(
    ("num_pages", "k"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (30, 3), (31, 4), (83, 4), (468, 4)]
)
def test_pages_of_a_retrieval(num_pages, k):
    assert DocVStarConfig().retrieval.k(num_pages) == k


def test_a_fixed_number_of_pages():
    for pages in (1, 5):
        config = DocVStarConfig(retrieval={"pages": pages})
        assert config.retrieval.k(1) == config.retrieval.k(468) == pages
        assert config.pages_per_turn == max(pages, 4)


def test_budgets():
    config = DocVStarConfig()
    assert (config.max_images, config.max_image_tokens) == (28, 28 * 999)
    plans = [next(config.overview.plans(n)) for n in (1, 36, 37, 83, 468, 469, 1873)]
    assert [plan.sheets for plan in plans] == [1, 1, 2, 3, 13, 8, 14]
    assert [config.overview_tokens(n) for n in (20, 83, 100, 468)] == [1850, 7680, 9360, 42_900]
    bare = DocVStarConfig(overview={"enabled": False}, fetch={"enabled": False}, retrieval={"pages": 2})
    assert (bare.overview_tokens(83), bare.max_images) == (0, 14)


def test_a_tiny_configuration_for_machines_without_an_accelerator():
    config = DocVStarConfig(
        max_turns=4,
        overview={
            "cell_px": 56,
            "header_px": 28,
            "font_px": 14,
            "pages_per_sheet": 16,
            "smaller_cells_px": [42, 28],
        },
        display={"long_side": 168, "short_side": 112},
    )
    assert config.overview_tokens(16) == 4 * 2 * 4 * 3
    assert config.display.max_tokens() == 24


def test_null_means_left_out():
    nulls = {"max_turns": None, "reward": {"answer": None}, "retrieval": {"pages": None}, "variant": None}
    assert DocVStarConfig.model_validate({**nulls, "context_tokens": None, "fetch": None}) == DocVStarConfig()


def test_given_keys_win_and_their_neighbours_stay():
    config = DocVStarConfig(reward={"evidence": 0.0, "hits": "listed"}, answer={"identifier_rule": "paper"})
    assert (config.reward.answer, config.reward.evidence, config.reward.beta2) == (0.6, 0, 2)
    assert config.reward.hits is HitRule.LISTED
    assert config.answer.rule().identifiers is IdentifierRule.PAPER


def test_extensions_may_be_written_with_a_dot():
    rule = DocVStarConfig(answer={"file_extensions": [".PDF"]}).answer.rule()
    assert rule.extensions == ("pdf",)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retrieval": {"enabled": False}, "fetch": {"enabled": False}}, r"retrieval.*fetch"),
        ({"reward": {"answer": 0.9}}, "reward"),
        ({"reward": {"beta2": 0}}, "reward.beta2"),
        ({"overview": {"smaller_cells_px": [128, 192]}}, "smaller_cells_px"),
        ({"overview": {"padding": [0, 0, 256]}}, "0 to 255"),
        ({"overview": {"font_px": 30}}, "font_px"),
        ({"display": {"encoder_max_pixels": 2_000_000}}, "1280x1680"),
        ({"display": {"min_pixels": 5}}, "display.min_pixels"),
        ({"context_tokens": 2048}, "context_tokens"),
        ({"answer": {"abstentions": ["  "]}}, "answer.abstentions"),
        ({"answer": {"threshold": 1.5}}, "answer.threshold"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        DocVStarConfig.model_validate(overrides)
