from __future__ import annotations

import openai
import pytest

from docagent_rl.endpoints.chat_client import ChatEndpoint
from docagent_rl.endpoints.endpoint import Endpoint, Price
from docagent_rl.envs.roles import RoleConfig
from docagent_rl.rewards.judge import JudgeConfig

SETTINGS = {
    "base_url": "http://localhost:1/v1",
    "model": "m",
    "api_key_env": "DOCAGENT_TEST_KEY",
    "timeout_s": 1.5,
    "attempts": 2,
    "backoff_s": 0.25,
    "deadline_s": 7.0,
    "check_s": 3.0,
    "concurrency": 5,
    "max_tokens": 99,
    "extra_body": {"top_k": 1},
    "price": {"input": 1.0, "output": 3.0, "currency": "EUR"},
}


@pytest.mark.parametrize("section", [JudgeConfig, RoleConfig])
def test_every_key_of_an_endpoint_reaches_the_client(section, monkeypatch):
    monkeypatch.setenv("DOCAGENT_TEST_KEY", "secret")
    made = ChatEndpoint.of(section(**SETTINGS), "judge")
    plain = SETTINGS.keys() - {"api_key_env", "price"}
    assert {name: getattr(made, name) for name in plain} == {name: SETTINGS[name] for name in plain}
    assert made.api_key == "secret"
    assert made.price == Price(1.0, 3.0, currency="EUR")
    assert made.price.cost(1_000_000, 250_000) == pytest.approx(1.75)
    # nothing is left out, and nothing is a section's own
    assert set(SETTINGS) == set(Endpoint.model_fields)
    assert set(SETTINGS).isdisjoint(section.__annotations__)


MOST = openai.DEFAULT_CONNECTION_LIMITS.max_connections


@pytest.mark.parametrize("section", [JudgeConfig, RoleConfig])
@pytest.mark.parametrize(
    "wrong", [{"timeout_s": 0}, {"attempts": 0}, {"concurrency": MOST + 1}, {"url": "x"}]
)
def test_what_no_endpoint_can_have_is_refused(section, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        section(**{**SETTINGS, **wrong})
