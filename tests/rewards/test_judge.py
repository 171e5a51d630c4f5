from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.rewards.judge import JudgeConfig, make_judge
from docagent_rl.rewards.judge_client import RemoteJudge

ENDPOINT = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}


@pytest.mark.parametrize(
    ("kind", "worth"), [(None, 0.0), ("rule", 0.0), ("exact", 0.0), ("recall", 2 / 3), ("anls", 0.75)]
)
async def test_rules(kind, worth):
    judge = make_judge(JudgeConfig(kind=kind, threshold=0.7))
    assert await judge.judge("?", ["ab cd ef"], "ab cd") == pytest.approx(worth if kind != "anls" else 0.0)
    if kind == "anls":
        assert await judge.judge("?", ["abcd"], "abcx") == worth


def test_endpoint_settings_arrive():
    config = JudgeConfig(kind="openai", **ENDPOINT, timeout_s=3, deadline_s=7, attempts=2, concurrency=5)
    judge = make_judge(config)
    assert isinstance(judge, RemoteJudge)
    endpoint = judge.model.endpoint
    assert (endpoint.base_url, endpoint.model) == tuple(ENDPOINT.values())
    assert (endpoint.timeout_s, endpoint.deadline_s, endpoint.attempts, endpoint.concurrency) == (3, 7, 2, 5)


@pytest.mark.parametrize("missing", ["base_url", "model"])
def test_an_endpoint_is_needed(missing):
    with pytest.raises(ValidationError, match="needs base_url and model"):
        JudgeConfig(kind="openai", **{**ENDPOINT, missing: None})


@pytest.mark.parametrize(
    "wrong", [{"kind": "oracle"}, {"url": "x"}, {"attempts": 0}, {"threshold": 1.1}, {"threshold": -0.1}]
)
def test_wrong_settings(wrong):
    with pytest.raises(ValidationError):
        JudgeConfig(**wrong)


def test_a_missing_key_is_named(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(UserError, match="NO_SUCH_KEY is not set"):
        make_judge(JudgeConfig(kind="openai", **ENDPOINT, api_key_env="NO_SUCH_KEY"))


def test_an_unusable_cache_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(UserError, match="judge cache"):
        make_judge(JudgeConfig(kind="openai", **ENDPOINT, cache_dir=file))
