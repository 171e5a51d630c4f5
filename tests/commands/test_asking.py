from __future__ import annotations

import asyncio
import re

import pytest

from docagent_rl.commands.asking import open_models, spending
from docagent_rl.endpoints.budget import BudgetError
from docagent_rl.endpoints.model_config import ModelConfig
from docagent_rl.errors import UserError
from tests.chat_server import completion
from tests.generate.conftest import server  # noqa: F401  fixture

MODEL = {"base_url": "http://127.0.0.1:1/v1", "model": "m"}
HELLO = [{"role": "user", "content": "hello"}]


def opened(model: dict | None = None, judge: dict | None = None):
    return open_models(ModelConfig(**MODEL, **(model or {})), ModelConfig(**(judge or {})), None)


def prices(sent: float, sampled: float, **more) -> dict:
    return {"price": {"input": sent, "output": sampled, **more}}


def test_the_judge_has_its_own_price_and_no_other():
    model, judge = opened(prices(1, 2), {"model": "j", **prices(30, 40)})
    assert (model.price.input, judge.price.input) == (1, 30)
    assert judge.budget is model.budget
    assert judge.ledger is model.ledger
    # what another model costs is not known
    _, judge = opened(prices(1, 2), {"model": "j"})
    assert judge.price is None
    assert (judge.endpoint.base_url, judge.endpoint.model) == (MODEL["base_url"], "j")
    assert opened(prices(1, 2))[1] is None


@pytest.mark.parametrize(
    ("model", "judge", "currency"),
    [
        (prices(1, 2, currency="EUR"), prices(3, 4), "EUR"),
        (prices(1, 2, currency="EUR"), prices(3, 4, currency="EUR"), "EUR"),
        ({}, prices(3, 4, currency="CHF"), "CHF"),
        (prices(1, 2), {}, "USD"),
    ],
)
def test_one_currency_counts(model, judge, currency):
    first, second = opened(model, {"model": "j", **judge})
    assert first.budget.currency == currency
    assert {each.price.currency for each in (first, second) if each.price} == {currency}


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
        await first.ask(HELLO)
        await second.ask(HELLO)
        assert second.budget.spent.cost == pytest.approx(11)
        await first.ask([{"role": "user", "content": "another"}])
        # it would be room for one more of the model's, not of what both have spent
        await second.ask([{"role": "user", "content": "another"}])

    with pytest.raises(BudgetError):
        asyncio.run(ask())
    accounts = first.ledger.accounts
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
