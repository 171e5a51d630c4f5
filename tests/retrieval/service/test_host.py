import asyncio
import threading

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.retrieval import Hit
from docagent_rl.retrieval.base import NotTakenError, SearchArguments
from docagent_rl.retrieval.service.host import HARMLESS, SearchHost


class Held:
    """A retriever that waits until it is released; its pages tell to which query they belong."""

    def __init__(self):
        self.gate, self.calls = threading.Event(), []

    def search(self, queries, *, doc_id=None, top_k, exclude=()):
        self.calls.append(list(queries))
        self.gate.wait(120)
        if "bad" in queries:
            raise ValueError("a bad query")
        return [[Hit(PageRef(query, 1), 1.0)] for query in queries]


@pytest.fixture
def held():
    return Held()


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


def ask(host, *queries, top_k=1):
    return [
        asyncio.create_task(host.search(SearchArguments((query,), top_k=top_k)))
        for query in queries
    ]


async def answers(tasks):
    return [hits[0][0].ref.doc_id for hits in await asyncio.gather(*tasks)]


async def test_more_than_may_wait_are_told_to_come_again_and_places_come_free(held):
    host = SearchHost(held, threads=1, max_waiting=3)
    running = ask(host, *"012")
    await until(lambda: host.waiting == 3)
    with pytest.raises(NotTakenError):
        await host.search(SearchArguments(("late",)))
    held.gate.set()
    assert await answers(running) == [*"012"]
    await until(lambda: host.waiting == 0)
    assert await host.search(SearchArguments(("late",)))


async def test_a_host_whose_searches_hang_is_told_from_a_busy_one(held):
    host = SearchHost(held, threads=1, max_waiting=2)
    running = ask(host, "first")
    await until(lambda: held.calls)
    running += ask(host, "late")
    await until(lambda: host.waiting == 2)
    await host.probe()  # full, and not for long
    host.deadline_s = 0.05
    await asyncio.sleep(0.06)
    with pytest.raises(TimeoutError):
        await host.probe()
    held.gate.set()
    assert await answers(running) == ["first", "late"]
    await host.probe()
    assert held.calls == [["first"], ["late"], [HARMLESS]]


async def test_one_that_gave_up_before_its_turn_is_not_searched_for(held):
    host = SearchHost(held, threads=1, max_waiting=10)
    first = ask(host, "first")
    await until(lambda: held.calls)
    (second,) = ask(host, "second", top_k=2)
    await until(lambda: host.waiting == 2)
    second.cancel()
    await until(lambda: host.waiting == 1)
    held.gate.set()
    assert await answers(first) == ["first"]
    assert held.calls == [["first"]]


async def test_a_large_batch_lets_others_have_their_turn(held):
    host = SearchHost(held, threads=1, max_waiting=64)
    batch = asyncio.create_task(host.search(SearchArguments(tuple(map(str, range(40))))))
    await until(lambda: held.calls)
    single = ask(host, "single")
    await until(lambda: host.waiting == 41)
    probe = asyncio.create_task(host.probe())
    await until(lambda: host.waiting == 42)
    held.gate.set()
    assert [hits[0].ref.doc_id for hits in await batch] == [*map(str, range(40))]
    assert await answers(single) == ["single"]
    await probe
    assert [call[0] for call in held.calls] == ["0", HARMLESS, "single", "16", "32"]
    assert max(map(len, held.calls)) == 16


async def test_health_is_seen_while_a_batch_fills_the_host(held):
    host = SearchHost(held, threads=1, max_waiting=256, deadline_s=0.2)
    held.gate.set()
    batch = asyncio.create_task(host.search(SearchArguments(("word " * 6000,) * 256)))
    await until(lambda: held.calls)
    held.gate.clear()
    await host.probe()
    with pytest.raises(TimeoutError):
        await batch
    held.gate.set()
    await host.probe()
    await until(lambda: host.waiting == 0)
    # what nobody waits for any more is not searched for
    assert sum(map(len, held.calls)) < 256
    assert max(len(call) for call in held.calls) == 2
