import pytest
from pydantic import ValidationError

from docagent_rl.rewards.judge import JudgeConfig, make_judge

ENDPOINT = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}


@pytest.mark.parametrize(
    ("kind", "worth"),
    [(None, 0.0), ("rule", 0.0), ("exact", 0.0), ("recall", 2 / 3), ("anls", 0.75)],
)
async def test_rules(kind, worth):
    judge = make_judge(JudgeConfig(kind=kind, threshold=0.7))
    assert await judge.judge("?", ["ab cd ef"], "ab cd") == pytest.approx(
        worth if kind != "anls" else 0.0
    )
    if kind == "anls":
        assert await judge.judge("?", ["abcd"], "abcx") == worth


@pytest.mark.parametrize("missing", ["base_url", "model"])
def test_an_endpoint_is_needed(missing):
    with pytest.raises(ValidationError, match="needs base_url and model"):
        JudgeConfig(kind="openai", **{**ENDPOINT, missing: None})
