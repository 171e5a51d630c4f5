import asyncio
import subprocess
import sys
from typing import Annotated

import pytest
import typer
from omegaconf import OmegaConf

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.commands.asking import judge_of, within_budget
from docagent_rl.commands.options import model_options
from docagent_rl.commands.playing import check_model, keep_replies
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.meter import BudgetError
from docagent_rl.endpoints.remote_model import open_model
from docagent_rl.lab.eval.choices import Agent
from tests.chat_server import completion
from tests.commands.conftest import called
from tests.lab.generate.conftest import server  # noqa: F401  fixture

MODEL = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}


def prices(sent: float, sampled: float, **more) -> dict:
    return {"price": {"input": sent, "output": sampled, **more}}


def test_what_a_judge_leaves_out_is_the_models_but_for_the_price():
    model = ModelConfig(**MODEL, **prices(1, 2))
    assert judge_of(model, ModelConfig()) is None
    judge = judge_of(model, ModelConfig(model="j"))
    assert (judge.base_url, judge.model, judge.price.is_known) == (MODEL["base_url"], "j", False)
    own = judge_of(model, ModelConfig(model="j", **prices(30, 40)))
    assert own.price.input == 30


def test_one_budget_counts_both_by_their_own_prices(server):  # noqa: F811
    server.compute = lambda request: completion("ready", usage=(1_000_000, 0))
    where = {"base_url": server.url, "max_tokens": 1}
    model = ModelConfig(**where, model="m", **prices(1, 1), budget={"max_cost": 12})
    judge = ModelConfig(**where, model="j", **prices(10, 1))

    async def ask(first, second):
        for each, text in (
            (first, "hello"),
            (second, "hello"),
            (first, "another"),
            (second, "another"),
        ):
            # the last would be room for one more of the model's, not of what both have spent
            await each.ask([{"role": "user", "content": text}])

    with within_budget(model, {"judge": judge}):
        first, second = open_model(model, "model", None), open_model(judge, "judge", None)
        with pytest.raises(BudgetError):
            asyncio.run(ask(first, second))
    accounts = first.meter.accounts
    assert (accounts["m"].cost, accounts["j"].cost) == (
        pytest.approx(2, abs=1e-3),
        pytest.approx(10, abs=1e-3),
    )


def test_what_further_models_cost_has_to_be_known_where_it_is_limited():
    first = ModelConfig(**MODEL, **prices(1, 2), budget={"max_cost": 3})
    silent = ModelConfig(**MODEL)
    with (
        pytest.raises(UserError, match="--judge-price-in"),
        within_budget(first, {"judge": silent}),
    ):
        pass
    with within_budget(
        first, {"judge": ModelConfig(), "evidence": ModelConfig(**MODEL, **prices(0, 0))}
    ):
        pass


def test_a_command_gets_its_models_and_a_second_one_may_have_prices_without_a_budget(tmp_path):
    (tmp_path / "m.yaml").write_text("base_url: http://a/v1\nmodel: big\n")
    seen = {}

    @model_options()
    @model_options("judge", prefix="judge-", second=True)
    def command(
        out: Annotated[str, typer.Option(help="File.")], endpoint: ModelConfig, judge: ModelConfig
    ) -> None:
        """Store the options."""
        seen.update(out=out, endpoint=endpoint, judge=judge)

    options = [
        "--out",
        "x",
        "--endpoint",
        tmp_path / "m.yaml",
        "--model",
        "small",
        "--max-tokens",
        "900",
    ]
    judge = ["--judge-base-url", "http://b/v1", "--judge-model", "j", "--judge-price-in", "3"]
    own = ["--price-in", "1", "--price-out", "2", "--judge-price-out", "4"]
    called(command, *options, *judge, *own)
    first, second = seen["endpoint"], seen["judge"]
    assert (seen["out"], first.base_url, first.model) == ("x", "http://a/v1", "small")
    assert (first.budget.max_tokens, first.price.input) == (900, 1)
    assert (second.base_url, second.model, second.price.output) == ("http://b/v1", "j", 4)
    called(command, "--out", "x", "--judge-max-cost", "1", status=2)


URL = "http://127.0.0.1:9/v1"


def configured(judge, roles=None):
    return OmegaConf.create({"docagent": {"judge": judge, "roles": roles or {}}})


def test_what_is_asked_is_kept_in_the_folder_of_the_run(tmp_path) -> None:
    roles = {
        "planner": {"base_url": URL, "cache_dir": None},
        "reader": {"base_url": URL, "cache_dir": "/elsewhere"},
        "answer": {"backend": "rule"},
    }
    given = configured({"kind": "openai", "base_url": URL}, roles)
    playing, model = keep_replies(given, ModelConfig(base_url=URL, model="m"), tmp_path)
    kept = tmp_path / "replies"
    assert model.cache_dir == kept / "model"
    assert playing.docagent.judge.cache_dir == str(kept / "judge")
    found = {name: role.get("cache_dir") for name, role in playing.docagent.roles.items()}
    assert found == {"planner": str(kept / "planner"), "reader": "/elsewhere", "answer": None}
    assert given == configured({"kind": "openai", "base_url": URL}, roles)
    # who is not asked, and who has a place, stay as they are
    own = ModelConfig(base_url=URL, model="m", cache_dir=tmp_path / "own")
    playing, model = keep_replies(configured({"kind": "rule", "base_url": URL}), own, tmp_path)
    assert ("cache_dir" in playing.docagent.judge, model.cache_dir) == (False, tmp_path / "own")
    weights = ModelConfig(model="checkpoints/global_step_3")
    assert keep_replies(configured({"kind": None}), weights, tmp_path)[1].cache_dir is None


def test_a_key_that_is_not_set_and_an_override_that_nobody_answers_are_named_first(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    with pytest.raises(UserError, match=r"--api-key-env: .*NO_SUCH_KEY is not set"):
        check_model(Agent.SYSTEM, ModelConfig(**MODEL, api_key_env="NO_SUCH_KEY"))
    role = "docagent.roles.reader.base_url"
    for override in (f"{role}={MODEL['base_url']}", f"+{role}={MODEL['base_url']}"):
        with pytest.raises(InfrastructureError, match=rf"^{role}=.*nothing listens there"):
            check_model(Agent.SYSTEM, ModelConfig(model="folder"), [override])
    check_model(Agent.SYSTEM, ModelConfig(model="folder"), [f"{role}=null", "+retriever=bm25"])


QUIET = """
from docagent_rl.commands.playing import check_model
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.eval.choices import Agent

check_model(Agent.SYSTEM, ModelConfig(model="folder"))

import torch.utils.cpp_extension
from transformers.utils import logging

logging.get_logger("transformers").warning("a deprecated parameter")
"""


@pytest.mark.slow
def test_libraries_write_no_warnings_between_the_lines_of_a_command():
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, check=True)
    assert done.stderr == ""
