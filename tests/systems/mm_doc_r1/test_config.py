from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.systems.mm_doc_r1.config import MMDocConfig


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"search": {"snippet_chars": 3}}, "snippet_chars"),
        ({"reward": {"correctness": float("nan")}}, "reward.correctness"),
        ({"answer": {"snippet_share": 2}}, "snippet_share"),
        ({"prompts": {"judge": "x"}}, "prompts.judge"),
    ],
)
def test_mistakes(overrides, message):
    with pytest.raises(ValidationError, match=message):
        MMDocConfig.model_validate(overrides)
