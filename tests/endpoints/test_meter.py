import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.endpoint import Price
from docagent_rl.endpoints.meter import Amount, BudgetError, Meter, metering
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.usage import Usage
from tests.chat_server import ChatServer, completion, serving
from tests.endpoints.conftest import HELLO, client

PER_TOKEN = Price(input=1e5, output=1e5)
"""A tenth of a dollar per token."""


async def spend(meter: Meter, estimate: int, used: int) -> None:
    """Send one request with a number of tokens."""
    async with meter.request("m", PER_TOKEN, estimate, 0) as pay:
        await asyncio.sleep(0)
        pay(Usage(used, 0))


async def test_refuses_before_a_limit_is_passed():
    meter = Meter(max_tokens=100)
    await spend(meter, 60, 50)
    with pytest.raises(BudgetError, match=r"\b50\b.*\b60\b.*\b100\b.*--max-tokens"):
        await spend(meter, 60, 60)
    assert meter.spent == Amount(pytest.approx(5), 50, 1)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=25), st.integers(0, 120))
def test_no_order_of_requests_passes_a_limit(sizes, limit):
    meter = Meter(max_cost=limit / 10)

    async def job(size: int) -> bool:
        try:
            await spend(meter, size, size)
        except BudgetError:
            return False
        return True

    async def play() -> list[bool]:
        return await asyncio.gather(*(job(size) for size in sizes))

    done = asyncio.run(play())
    assert meter.spent.cost <= limit / 10 * (1 + 1e-6)
    assert meter.spent.requests == sum(done)
    left = limit - sum(size for size, ok in zip(sizes, done, strict=True) if ok)
    assert all(size > left for size, ok in zip(sizes, done, strict=True) if not ok)


def test_threads_share_a_meter():
    meter, refused = Meter(max_requests=50), []

    def work() -> None:
        for _ in range(20):
            try:
                asyncio.run(spend(meter, 1, 1))
            except BudgetError:
                refused.append(1)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(work)
    assert (meter.spent.requests, len(refused)) == (50, 30)


@pytest.fixture
async def server():
    async with serving(ChatServer(compute=lambda _: completion("yes", usage=(100, 10)))) as running:
        yield running


def judge(server, **more) -> RemoteModel:
    return client(server.url, "judge", **{"model": "judge-1", "max_tokens": 50, **more})


async def test_who_has_no_meter_is_charged_within_the_block_alone(server):
    meter, asked = Meter(), judge(server, price={"input": 10.0, "output": 100.0})
    await asked.ask(HELLO)
    with metering(meter):
        # tasks, and those that they begin, belong to the block
        await asyncio.gather(*(asked.ask(HELLO, sample=n) for n in range(3)))
    await asked.ask(HELLO)
    assert len(server.requests) == 5
    assert (meter.spent.requests, meter.spent.tokens) == (3, 330)
    assert meter.spent.cost == pytest.approx(3 * 0.002)
    account = meter.accounts["judge-1"]
    assert (account.requests, account.prompt_tokens, account.completion_tokens) == (3, 300, 30)
    assert account.cost == pytest.approx(3 * 0.002)


async def test_every_attempt_is_charged_and_the_budget_kept_before_it_is_sent(server):
    empty, yes = completion("", usage=(7, 0)), completion("yes", usage=(100, 10))
    cut, slow = completion("yes and", "length", usage=(100, 50)), 60.0
    server.script, server.compute = [empty, slow, yes, cut], None
    meter = Meter(max_requests=4)
    with metering(meter):
        asked = judge(server, timeout_s=3)
        assert (await asked.ask(HELLO)).text == "yes"
        with pytest.raises(InfrastructureError, match="max_tokens"):
            await asked.ask(HELLO)
        with pytest.raises(BudgetError):
            await asked.ask(HELLO)
    # nobody knows what the slow one took but its prompt, about
    assert (meter.spent.requests, meter.spent.tokens) == (4, 7 + 6 + 110 + 150)
    assert len(server.requests) == 4
