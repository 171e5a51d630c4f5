from __future__ import annotations

import pytest
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.envs.role_client import make_roles
from docagent_rl.envs.roles import RoleBackend, RoleConfig

REMOTE = {"backend": "openai", "base_url": "http://127.0.0.1:1/v1", "model": "m"}


def test_embedded_roles_need_no_model(report_store):
    assert RoleConfig().backend is None
    assert RoleConfig(base_url="http://127.0.0.1:1/v1", model="m").backend is RoleBackend.OPENAI
    assert RoleConfig(model="m").backend is None
    assert make_roles({"planner": RoleConfig(), "reader": RoleConfig()}, report_store) == {}


def test_remote_roles(report_store, tmp_path):
    configs = {"reader": RoleConfig(**REMOTE, cache_dir=tmp_path), "planner": RoleConfig()}
    roles = make_roles(configs, report_store)
    assert set(roles) == {"reader"}
    assert (roles["reader"].name, roles["reader"].endpoint.temperature) == ("reader", 0.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"backend": "openai", "model": "m"}, "base_url"),
        ({"backend": "vllm"}, "backend"),
        ({"temprature": 0}, "temprature"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_mistakes(changes, message):
    with pytest.raises(ValidationError, match=message):
        RoleConfig(**changes)


def test_a_key_that_is_not_set(report_store, monkeypatch):
    monkeypatch.delenv("READER_KEY", raising=False)
    with pytest.raises(UserError, match=r"roles\.reader\.api_key_env.*READER_KEY"):
        make_roles({"reader": RoleConfig(**REMOTE, api_key_env="READER_KEY")}, report_store)


def test_the_policy_plays_the_answer_agent_alone(report_store):
    policy = RoleConfig(backend="policy")
    assert make_roles({"answer": policy}, report_store) == {}
    with pytest.raises(UserError, match=r"roles\.planner\.backend"):
        make_roles({"answer": policy, "planner": policy}, report_store)
