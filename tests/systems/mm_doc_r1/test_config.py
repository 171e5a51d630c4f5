from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.systems.mm_doc_r1.config import MMDocConfig, SearchEngine
from docagent_rl.systems.mm_doc_r1.rewards import EmptyEvidence, PageTerm


def test_paper():
    config = MMDocConfig.for_variant("paper")
    assert MMDocConfig() == config
    assert (config.max_steps, config.assistant_turns, config.max_invalid_in_a_row) == (4, 4, 2)
    assert (config.max_images, config.max_image_tokens) == (0, 0)
    assert (config.search.top_k, config.search.max_keywords, config.search.max_keyword_chars) == (10, 8, 200)
    assert (config.search.engine, config.search.k1, config.search.b) == (
        SearchEngine.DOCUMENT_BM25,
        1.5,
        0.75,
    )
    assert config.search.snippet_chars == 240
    assert (config.read.max_pages, config.read.max_entries, config.read.note_tokens) == (3, 2, 512)
    assert (config.plan.max_items, config.plan.max_headings, config.plan.max_figures) == (10, 200, 200)
    assert (config.history.prompt_tokens, config.history.reasoning_words) == (8192, 150)
    assert config.history.shortened_note_chars == 400
    assert (config.answer.max_tokens, config.answer.page_chars, config.answer.snippet_chars) == (
        12_000,
        2000,
        120,
    )
    assert config.answer.snippet_share == 0.1
    assert (config.reward.pages, config.reward.correctness) == (1, 1)
    assert (config.reward.page_term, config.reward.empty_evidence) == (PageTerm.RECALL, EmptyEvidence.ONE)
    assert config.display.max_tokens() == 2048
    assert config.prompt == "mm_doc_r1_seeker"


def test_given_keys_win_and_their_neighbours_stay():
    config = MMDocConfig.for_variant(search={"top_k": 3}, display={"snap": False}, reward={"pages": 0})
    assert (config.search.top_k, config.search.max_keywords) == (3, 8)
    assert (config.display.snap, config.display.max_pixels) == (False, 2048 * 28 * 28)
    assert (config.reward.pages, config.reward.correctness) == (0, 1)


def test_null_means_left_out():
    nulls = {"max_steps": None, "variant": None, "search": {"top_k": None}, "plan": None, "display": None}
    assert MMDocConfig.model_validate(nulls) == MMDocConfig()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"search": {"snippet_chars": 3}}, "snippet_chars"),
        ({"reward": {"pages": -1}}, "reward.pages"),
        ({"reward": {"correctness": float("nan")}}, "reward.correctness"),
        ({"answer": {"snippet_share": 2}}, "snippet_share"),
        ({"prompts": {"judge": "x"}}, "prompts.judge"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        MMDocConfig.model_validate(overrides)


def test_the_reward_rule():
    rule = MMDocConfig.for_variant(reward={"page_term": "f1", "empty_evidence": "zero"}).reward.rule()
    assert rule.pages({1, 2}, {1}, 0) == pytest.approx(2 / 3)
    assert rule.pages({1}, set(), 1) == 0
