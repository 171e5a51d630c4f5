from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.rewards.answer_kinds import IdentifierRule
from docagent_rl.rewards.answer_rule import AnswerRule
from docagent_rl.systems.doc_v_star.config import DocVStarConfig

PAPER = DocVStarConfig()


@pytest.mark.parametrize(
    ("num_pages", "k"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3), (30, 3), (31, 4), (83, 4), (468, 4)]
)
def test_pages_of_a_retrieval(num_pages, k):
    assert PAPER.retrieval.k(num_pages) == k


@pytest.mark.parametrize(
    ("overrides", "images"),
    [
        ({}, 7 * 4),
        ({"retrieval": {"pages": 1}}, 7 * 4),
        ({"retrieval": {"pages": 5}}, 7 * 5),
        ({"retrieval": {"pages": 5, "enabled": False}}, 7 * 4),
        ({"retrieval": {"pages": 2}, "fetch": {"enabled": False}}, 7 * 2),
    ],
)
def test_images_and_their_tokens(overrides, images):
    config = DocVStarConfig(**overrides)
    assert (config.max_images, config.max_image_tokens) == (images, images * 999)
    if pages := config.retrieval.pages:
        assert config.retrieval.k(1) == config.retrieval.k(468) == pages


def test_overviews():
    plans = [next(PAPER.overview.plans(n)) for n in (1, 36, 37, 83, 468, 469, 1873)]
    assert [plan.sheets for plan in plans] == [1, 1, 2, 3, 13, 8, 14]
    assert PAPER.overview_tokens(83) == 7680
    assert DocVStarConfig(overview={"enabled": False}).overview_tokens(83) == 0
    cells = {"cell_px": 56, "header_px": 28, "smaller_cells_px": [42, 28]}
    tiny = DocVStarConfig(overview=cells, display={"long_side": 168, "short_side": 112})
    assert (tiny.overview_tokens(16), tiny.display.max_tokens()) == (4 * 2 * 4 * 3, 24)


def test_extensions_may_be_written_with_a_dot():
    assert PAPER.answer.rule() == AnswerRule(0.5, IdentifierRule.ALL)
    config = DocVStarConfig(answer={"identifier_rule": "paper", "file_extensions": [".PDF"]})
    assert config.answer.rule() == AnswerRule(0.5, IdentifierRule.PAPER, ("pdf",))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retrieval": {"enabled": False}, "fetch": {"enabled": False}}, r"retrieval.*fetch"),
        ({"reward": {"answer": 0.9}}, r"0\.9"),
        ({"overview": {"smaller_cells_px": [256]}}, "cell_px=256"),
        ({"overview": {"fit_cells_px": [88, 88]}}, "fit_cells_px"),
        ({"overview": {"padding": [0, 0, 256]}}, "256"),
        ({"overview": {"font_px": 30}}, "font_px=30"),
        ({"display": {"long_side": 500, "short_side": 600}}, "short_side"),
        ({"display": {"long_side": 27, "short_side": 27}}, "28"),
        ({"display": {"encoder_min_pixels": 9, "encoder_max_pixels": 8}}, "encoder_min_pixels"),
        ({"display": {"encoder_max_pixels": 2_000_000}}, "1280x1680"),
        ({"context_tokens": 2048}, "context_tokens=2048"),
        ({"answer": {"abstentions": ["  "]}}, "answer.abstentions"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        DocVStarConfig.model_validate(overrides)
