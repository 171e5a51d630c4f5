from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.budget import Amount, Budget, BudgetError


async def spend(budget: Budget, estimate: Amount, cost: Amount) -> None:
    async with budget.reserved(estimate) as room:
        await asyncio.sleep(0)
        room.charge(cost)


async def test_refuses_before_a_limit_is_passed():
    budget = Budget(max_tokens=100)
    await spend(budget, Amount(1, 60, 0), Amount(1, 50, 0))
    with pytest.raises(BudgetError, match=r"\b50\b.*\b60\b.*\b100\b.*--max-tokens"):
        await spend(budget, Amount(1, 60, 0), Amount(1, 60, 0))
    assert budget.spent == Amount(1, 50, 0)


async def test_waits_for_requests_in_flight_that_may_leave_room():
    budget = Budget(max_tokens=100)
    await asyncio.gather(*(spend(budget, Amount(1, 60, 0), Amount(1, 10, 0)) for _ in range(4)))
    assert budget.spent == Amount(4, 40, 0)


def test_an_error_says_what_is_left():
    budget = Budget(max_requests=0)
    with pytest.raises(BudgetError) as caught:
        budget.require(Amount(1))
    left = caught.value.leaving("7 of 9 documents")
    assert "7 of 9 documents" in str(left)
    assert isinstance(left, UserError)
    with pytest.raises(UserError, match="max_cost"):
        Budget(max_cost=float("nan"))


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=25), st.integers(0, 120))
def test_no_order_of_requests_passes_a_limit(sizes, limit):
    budget = Budget(max_cost=limit / 10)

    async def job(size: int) -> bool:
        try:
            await spend(budget, Amount(1, 0, size / 10), Amount(1, 0, size / 10))
        except BudgetError:
            return False
        return True

    async def play() -> list[bool]:
        return await asyncio.gather(*(job(size) for size in sizes))

    done = asyncio.run(play())
    assert budget.spent.cost <= limit / 10 * (1 + 1e-6)
    assert budget.spent.requests == sum(done)
    left = limit - sum(size for size, ok in zip(sizes, done, strict=True) if ok)
    assert all(size > left for size, ok in zip(sizes, done, strict=True) if not ok)


def test_threads_share_a_budget():
    budget = Budget(max_requests=50)
    refused = []

    def work() -> None:
        for _ in range(20):
            try:
                asyncio.run(spend(budget, Amount(1), Amount(1)))
            except BudgetError:
                refused.append(1)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(work)
    assert (budget.spent.requests, len(refused)) == (50, 30)
