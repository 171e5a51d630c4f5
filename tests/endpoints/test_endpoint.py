import openai
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.remote_model import open_model
from docagent_rl.envs.roles import RoleConfig
from docagent_rl.rewards.judge import JudgeConfig

MOST = openai.DEFAULT_CONNECTION_LIMITS.max_connections


@pytest.mark.parametrize("section", [JudgeConfig, RoleConfig])
@pytest.mark.parametrize(
    "wrong", [{"timeout_s": 0}, {"attempts": 0}, {"concurrency": MOST + 1}, {"url": "x"}]
)
def test_what_no_endpoint_can_have_is_refused(section, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        section(**wrong)


FILE = """
base_url: http://127.0.0.1:1/v1
model: big
price: {input: 2, output: 8}
budget: {max_cost: 5}
"""


def test_options_go_over_the_file(tmp_path):
    (tmp_path / "m.yaml").write_text(FILE)
    options = {
        "model": "small",
        "price": {"input": 1.0, "output": None},
        "budget": {"max_requests": 3},
    }
    config = ModelConfig.load(tmp_path / "m.yaml", options)
    assert (config.base_url, config.model) == ("http://127.0.0.1:1/v1", "small")
    assert (config.price.input, config.price.output) == (1.0, 8.0)
    assert (config.budget.max_cost, config.budget.max_requests) == (5.0, 3)


@pytest.mark.parametrize(
    ("text", "named"),
    [("api_key: secret", "api_key"), ("price: {input: "
                                      "1}", "--price-out"), ("concurrency: 0", "concurrency"),
     ("budget: {max_cost: 1}", "--price-in"), ("- a", "keys"), ("a: [", "YAML")],
)  # fmt: skip
def test_a_wrong_file_is_told(tmp_path, text, named):
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        ModelConfig.load(tmp_path / "m.yaml", {})
    assert named in str(caught.value)
    assert "m.yaml" in str(caught.value)


def test_a_key_comes_from_the_environment(monkeypatch):
    config = ModelConfig.load(
        None, {"base_url": "http://x/v1", "model": "m", "api_key_env": "DOC_KEY"}
    )
    with pytest.raises(UserError, match="DOC_KEY"):
        open_model(config, "teacher", None)
    monkeypatch.setenv("DOC_KEY", "sk-123456789012345678")
    open_model(config, "teacher", None)
    with pytest.raises(UserError, match="--base-url"):
        open_model(ModelConfig(), "judge", None)
