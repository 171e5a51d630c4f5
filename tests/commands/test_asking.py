from __future__ import annotations

import asyncio
import re
from typing import Annotated

import pytest
import typer
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.commands.asking import open_models, spending
from docagent_rl.commands.options import model_options
from docagent_rl.commands.playing import keep_replies
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.meter import BudgetError
from tests.chat_server import completion
from tests.commands.conftest import called
from tests.lab.generate.conftest import server  # noqa: F401  fixture

MODEL = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}


def opened(model: dict | None = None, judge: dict | None = None):
    return open_models(ModelConfig(**MODEL, **(model or {})), ModelConfig(**(judge or {})), None)


def prices(sent: float, sampled: float, **more) -> dict:
    return {"price": {"input": sent, "output": sampled, **more}}


def test_the_judge_has_its_own_price_and_no_other():
    model, judge = opened(prices(1, 2), {"model": "j", **prices(30, 40)})
    assert (model.endpoint.price.input, judge.endpoint.price.input) == (1, 30)
    assert judge.meter is model.meter
    # what another model costs is not known
    _, judge = opened(prices(1, 2), {"model": "j"})
    assert not judge.endpoint.price.is_known
    assert (judge.endpoint.base_url, judge.endpoint.model) == (MODEL["base_url"], "j")
    assert opened(prices(1, 2))[1] is None


@pytest.mark.parametrize(
    ("model", "judge", "currency"),
    [
        (prices(1, 2, currency="EUR"), prices(3, 4), "EUR"),
        ({}, prices(3, 4, currency="CHF"), "CHF"),
        (prices(1, 2), {}, "USD"),
    ],
)
def test_one_currency_counts(model, judge, currency):
    first, second = opened(model, {"model": "j", **judge})
    assert first.meter.currency == currency
    assert {each.endpoint.price.currency for each in (first, second) if each.endpoint.price.is_known} == {
        currency
    }


@pytest.mark.parametrize(
    ("model", "judge", "told"),
    [
        (prices(1, 2), {"model": "j", **prices(1, 2, currency="EUR")}, "EUR"),
        ({**prices(1, 2), "budget": {"max_cost": 3}}, {"model": "j"}, "--judge-price-in"),
        ({}, {"model": "j", "budget": {"max_requests": 3}}, "judge"),
        ({}, prices(1, 2), "--judge-model"),
    ],
)
def test_what_one_budget_cannot_count_is_refused(model, judge, told):
    with pytest.raises(UserError, match=re.escape(told)):
        opened(model, judge)


def test_one_budget_counts_both_by_their_own_prices(server):  # noqa: F811
    server.compute = lambda request: completion("ready", usage=(1_000_000, 0))
    where = {"base_url": server.url, "max_tokens": 1}
    model = ModelConfig(**where, model="m", **prices(1, 1), budget={"max_cost": 12})
    first, second = open_models(model, ModelConfig(**where, model="j", **prices(10, 1)), None)

    async def ask():
        for each, text in ((first, "hello"), (second, "hello"), (first, "another"), (second, "another")):
            # the last would be room for one more of the model's, not of what both have spent
            await each.ask([{"role": "user", "content": text}])

    with pytest.raises(BudgetError):
        asyncio.run(ask())
    accounts = first.meter.accounts
    assert (accounts["m"].cost, accounts["j"].cost) == (pytest.approx(2), pytest.approx(10))


def test_what_further_models_cost_has_to_be_known_where_it_is_limited():
    first = ModelConfig(**MODEL, **prices(1, 2), budget={"max_cost": 3})
    silent, dear = ModelConfig(**MODEL), ModelConfig(**MODEL, **prices(5, 6, currency="EUR"))
    with pytest.raises(UserError, match="--grounder-price-in"), spending(first, {"grounder": silent}):
        pass
    with pytest.raises(UserError, match=r"evidence .*EUR"), spending(first, {"evidence": dear}):
        pass
    with spending(first, {"grounder": ModelConfig(), "evidence": ModelConfig(**MODEL, **prices(0, 0))}):
        pass


def test_a_command_gets_its_models_and_a_second_one_may_have_prices_without_a_budget(tmp_path):
    (tmp_path / "m.yaml").write_text("base_url: http://a/v1\nmodel: big\n")
    seen = {}

    @model_options()
    @model_options("judge", prefix="judge-", shared=False, priced=True)
    def command(
        out: Annotated[str, typer.Option(help="File.")], endpoint: ModelConfig, judge: ModelConfig
    ) -> None:
        """Do it."""
        seen.update(out=out, endpoint=endpoint, judge=judge)

    options = ["--out", "x", "--endpoint", tmp_path / "m.yaml", "--model", "small", "--max-tokens", "900"]
    judge = ["--judge-base-url", "http://b/v1", "--judge-model", "j", "--judge-price-in", "3"]
    own = ["--price-in", "1", "--price-out", "2", "--judge-price-out", "4", "--judge-currency", "EUR"]
    called(command, *options, *judge, *own)
    first, second = seen["endpoint"], seen["judge"]
    assert (seen["out"], first.base_url, first.model) == ("x", "http://a/v1", "small")
    assert (first.budget.max_tokens, first.price.input, first.price.currency) == (900, 1, "USD")
    assert (second.base_url, second.model) == ("http://b/v1", "j")
    assert (second.price.output, second.price.currency) == (4, "EUR")
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
