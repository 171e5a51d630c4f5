from __future__ import annotations

from operator import attrgetter

import pytest
from pydantic import ValidationError

from docagent_rl.systems.mm_doc_r1.config import MMDocConfig

PAPER = {
    "max_steps": 4, "assistant_turns": 4, "max_invalid_in_a_row": 2, "max_images": 0, "max_image_tokens": 0,
    "search.engine": "document_bm25", "search.k1": 1.5, "search.b": 0.75, "search.top_k": 10,
    "read.max_pages": 3, "read.max_entries": 2, "plan.max_items": 10,
    "reward.pages": 1, "reward.correctness": 1, "reward.page_term": "recall", "reward.empty_evidence": "one",
}  # fmt: skip


def test_paper():
    config = MMDocConfig.for_variant("paper")
    assert {key: attrgetter(key)(config) for key in PAPER} == PAPER
    assert config.display.max_tokens() == 2048


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
