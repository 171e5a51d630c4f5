from __future__ import annotations

import asyncio

import pytest

from docagent_rl.endpoints.budget import Budget, BudgetError
from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint
from docagent_rl.endpoints.chat_reply import said
from docagent_rl.endpoints.ledger import Ledger
from docagent_rl.endpoints.metering import charged, charging, payer_of
from docagent_rl.endpoints.model_config import ModelConfig
from docagent_rl.endpoints.price import Price
from tests.chat_server import ChatServer, completion, serving

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def server():
    async with serving(ChatServer(compute=lambda _: completion("yes", usage=(100, 10)))) as running:
        yield running


def endpoint(server, **more) -> ChatEndpoint:
    return ChatEndpoint(server.url, "judge-1", timeout_s=5, backoff_s=0, max_tokens=50, **more)


async def test_who_has_no_meter_is_charged_within_the_block_alone(server):
    budget, ledger = Budget(), Ledger()
    client = ChatClient(endpoint(server, price=Price(10.0, 100.0)), "judge")
    assert await client.ask(HELLO, said) == "yes"
    with charging(budget, ledger):
        # tasks, and those that they begin, belong to the block
        assert await asyncio.gather(*(client.ask(HELLO, said) for _ in range(3))) == ["yes"] * 3
    assert await client.ask(HELLO, said) == "yes"
    assert len(server.requests) == 5
    assert (budget.spent.requests, budget.spent.tokens) == (3, 330)
    assert budget.spent.cost == pytest.approx(3 * 0.002)
    account = ledger.accounts["judge-1"]
    assert (account.requests, account.prompt_tokens, account.completion_tokens) == (3, 300, 30)
    assert account.cost == pytest.approx(3 * 0.002)


async def test_every_attempt_is_charged_and_the_budget_kept_before_it_is_sent(server):
    empty, yes = completion("", usage=(7, 0)), completion("yes", usage=(100, 10))
    server.script, server.compute = [empty, empty, yes], None
    budget, ledger = Budget(max_requests=3), Ledger()
    with charging(budget, ledger):
        client = ChatClient(endpoint(server), "judge")
        assert await client.ask(HELLO, said) == "yes"
        with pytest.raises(BudgetError):
            await client.ask(HELLO, said)
    assert (budget.spent.requests, budget.spent.tokens, len(server.requests)) == (3, 7 + 7 + 110, 3)
    assert ledger.accounts["judge-1"].failed == 2


async def test_models_that_are_opened_in_the_block_share_it(server):
    budget, ledger = Budget(), Ledger()
    config = ModelConfig(base_url=server.url, model="player", price={"input": 1.0, "output": 2.0})
    with charging(budget, ledger):
        assert charged() == (budget, ledger)
        model = config.open("model", None)
        await model.ask(HELLO)
        await ChatClient(endpoint(server), "judge").ask(HELLO, said)
    assert budget.spent.requests == 2  # and none twice
    assert {name: each.requests for name, each in ledger.accounts.items()} == {"player": 1, "judge-1": 1}
    assert ledger.accounts["judge-1"].cost is None
    assert charged() is None
    assert payer_of("judge-1", None) is None
