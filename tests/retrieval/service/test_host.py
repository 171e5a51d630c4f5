from __future__ import annotations

import asyncio
import threading

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.failures import BusyError
from docagent_rl.retrieval.service.host import SearchHost


class Held:
    """A retriever that waits to be let go; its pages tell which query they answer."""

    def __init__(self, *, open_from_start=False):
        self.gate, self.calls = threading.Event(), []
        if open_from_start:
            self.gate.set()

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        self.calls.append(list(queries))
        self.gate.wait(120)
        if "bad" in queries:
            raise ValueError("a bad query")
        return [[Hit(PageRef(query, 1), 1.0)] for query in queries]


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


async def test_more_than_may_wait_are_told_to_come_again_and_places_come_free():
    held = Held()
    host = SearchHost(held, threads=1, max_waiting=3)
    running = [asyncio.create_task(host.search([str(n)], top_k=1)) for n in range(3)]
    await until(lambda: host.waiting == 3)
    with pytest.raises(BusyError) as caught:
        await host.search(["late"], top_k=1)
    assert caught.value.retry_after_s > 0
    held.gate.set()
    assert [hits[0][0].ref.doc_id for hits in await asyncio.gather(*running)] == ["0", "1", "2"]
    await until(lambda: host.waiting == 0)
    assert await host.search(["late"], top_k=1)


async def test_queries_that_wait_together_are_asked_together_and_answered_apart():
    held = Held()
    host = SearchHost(held, threads=1, max_waiting=100)
    tasks = [asyncio.create_task(host.search([str(n)], top_k=1)) for n in range(9)]
    other = asyncio.create_task(host.search(["other"], top_k=2))
    await until(lambda: host.waiting == 10)
    held.gate.set()
    answers = [hits[0][0].ref.doc_id for hits in await asyncio.gather(*tasks)]
    assert answers == [str(n) for n in range(9)]
    assert (await other)[0][0].ref.doc_id == "other"
    assert len(held.calls) <= 3
    assert max(map(len, held.calls)) >= 8


async def test_a_query_that_fails_fails_alone():
    held = Held()
    host = SearchHost(held, threads=1, max_waiting=100)
    first = asyncio.create_task(host.search(["first"], top_k=1))
    await until(lambda: held.calls)
    tasks = [asyncio.create_task(host.search([name], top_k=1)) for name in ("a", "bad", "b")]
    await until(lambda: host.waiting == 4)
    held.gate.set()
    results = await asyncio.gather(first, *tasks, return_exceptions=True)
    assert [type(result) for result in results] == [list, list, ValueError, list]
    assert host.waiting == 0


async def test_a_search_that_hangs_costs_the_deadline_and_keeps_its_place():
    held = Held()
    host = SearchHost(held, threads=1, max_waiting=1, deadline_s=0.1)
    with pytest.raises(TimeoutError):
        await host.search(["slow"], top_k=1)
    with pytest.raises(BusyError):
        await host.search(["next"], top_k=1)
    held.gate.set()
    await until(lambda: host.waiting == 0)


async def test_one_that_gave_up_before_its_turn_is_not_searched_for():
    held = Held()
    host = SearchHost(held, threads=1, max_waiting=10)
    first = asyncio.create_task(host.search(["first"], top_k=1))
    await until(lambda: held.calls)
    second = asyncio.create_task(host.search(["second"], top_k=2))
    await until(lambda: host.waiting == 2)
    second.cancel()
    await until(lambda: host.waiting == 1)
    held.gate.set()
    await first
    assert held.calls == [["first"]]


async def test_a_closed_host_takes_nothing():
    host = SearchHost(Held(open_from_start=True), threads=1)
    host.close()
    with pytest.raises(BusyError):
        await host.search(["q"], top_k=1)
