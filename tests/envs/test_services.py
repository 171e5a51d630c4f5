import asyncio
import dataclasses
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval.base import NotTakenError, ServiceFailedError


class Flaky:
    """A retriever that fails in the given ways and then passes searches to a real one."""

    def __init__(self, inner, *failures):
        self.inner, self.failures, self.calls, self.threads = inner, list(failures), 0, set()

    def search(self, queries, **options):
        self.calls += 1
        self.threads.add(threading.current_thread())
        if self.failures:
            raise self.failures.pop(0)
        return self.inner.search(queries, **options)


class Hanging:
    """A retriever whose first searches wait until they are released; it counts concurrent
    searches.
    """

    def __init__(self, inner, hanging):
        self.inner, self.hanging, self.running, self.most = inner, hanging, 0, 0
        self.lock, self.free = threading.Lock(), threading.Event()

    def search(self, queries, **options):
        with self.lock:
            self.running, hangs = self.running + 1, self.hanging > 0
            self.hanging, self.most = self.hanging - 1, max(self.most, self.running)
        if hangs:
            self.free.wait(60)
        with self.lock:
            self.running -= 1
        return self.inner.search(queries, **options)


def search(retriever, **settings):
    service = RetrieverService(retriever, **{"backoff_s": 0.0, **settings})
    return asyncio.run(service.search("pagek3", doc_id=None, top_k=2))


def test_searches_in_a_thread(retriever):
    flaky = Flaky(retriever)
    options = {"doc_id": "Q", "top_k": 2, "exclude": {PageRef("Q", 1)}}
    hits = asyncio.run(RetrieverService(flaky).search("everypage", **options))
    assert [hit.ref for hit in hits] == [PageRef("Q", 2), PageRef("Q", 3)]
    (thread,) = flaky.threads
    # one that hangs keeps no process from ending, and a dump of threads names it
    assert (thread.name, thread.daemon) == ("docagent-search", True)


@pytest.mark.parametrize("failure", [ConnectionResetError("gone"), TimeoutError(), OSError("disk")])
def test_system_failures_are_tried_again_until_attempts_run_out(retriever, failure):
    flaky = Flaky(retriever, failure, failure)
    assert search(flaky)
    assert flaky.calls == 3
    failing = Flaky(retriever, *[failure] * 9)
    with pytest.raises(InfrastructureError, match=type(failure).__name__):
        search(failing)
    assert failing.calls == 3


async def many(service, number):
    searches = (service.search("pagek3", doc_id=None, top_k=2) for _ in range(number))
    return await asyncio.gather(*searches, return_exceptions=True)


async def test_as_many_searches_together_as_were_allowed(retriever):
    """The limit also holds on a machine with one core, where the event loop has few threads."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    hanging = Hanging(retriever, 3)
    service = RetrieverService(hanging, deadline_s=600, concurrency=3, backoff_s=0)
    found = asyncio.create_task(many(service, 20))
    while hanging.running < 3:
        await asyncio.sleep(0.01)
    hanging.free.set()
    assert [[hit.ref for hit in hits] for hits in await found] == [[PageRef("K", 3)]] * 20
    assert hanging.most == 3


async def test_searches_that_hang_do_not_hold_up_the_next(retriever):
    hanging = Hanging(retriever, 2)
    service = RetrieverService(hanging, deadline_s=1.2, concurrency=2, backoff_s=0)
    try:
        results = await many(service, 4)
    finally:
        hanging.free.set()
    assert [type(result) for result in results] == [InfrastructureError] * 2 + [list] * 2


@pytest.mark.parametrize(
    "failure", [InfrastructureError("down"), UserError("bad"), ZeroDivisionError("bug")]
)
def test_other_failures_pass_through(retriever, failure):
    flaky = Flaky(retriever, failure)
    with pytest.raises(type(failure), match=str(failure)):
        search(flaky)
    assert flaky.calls == 1


async def test_a_search_is_asked_with_all_that_it_says(retriever):
    class Asking:
        async def asearch(self, queries, **options):
            self.asked = (queries, options)
            return [[]]

    asking = Asking()
    assert await RetrieverService(asking).search("half \ud83d", doc_id="K", top_k=7) == []
    assert asking.asked == (["half ?"], {"doc_id": "K", "top_k": 7, "exclude": frozenset()})


async def test_searches_that_a_service_did_not_take_do_not_count(retriever):
    flaky = Flaky(retriever, *[NotTakenError("busy") for _ in range(5)])
    with noting() as notes:
        hits = await RetrieverService(flaky, attempts=1, backoff_s=0.0).search(
            "pagek3", doc_id=None, top_k=2
        )
    assert hits
    assert (flaky.calls, notes[0].tries) == (6, 6)


async def test_a_service_that_fails_is_asked_again(retriever):
    flaky = Flaky(retriever, ServiceFailedError("down"), ServiceFailedError("down"))
    service = RetrieverService(flaky, attempts=2, backoff_s=0.0)
    with pytest.raises(InfrastructureError, match="down"):
        await service.search("pagek3", doc_id=None, top_k=2)
    assert flaky.calls == 2


async def test_a_search_has_a_deadline(retriever):
    hanging = Hanging(retriever, 1)
    try:
        with pytest.raises(InfrastructureError, match="retriever"):
            await RetrieverService(hanging, deadline_s=0.3).search("pagek3", doc_id=None, top_k=2)
    finally:
        hanging.free.set()


def test_services_are_alike_by_what_they_were_made_of():
    first, second = RetrieverService(None), RetrieverService(None)
    assert first == second != RetrieverService(None, name="other")
    assert [name for name in ("ConcurrencyLimit", "AnswerCache") if name in repr(first)] == []


def test_a_service_asks_three_times_within_a_minute_and_keeps_nothing():
    service = RetrieverService(None)
    assert (service.attempts, service.deadline_s, service.backoff_s, service.cached) == (
        3,
        60.0,
        0.5,
        0,
    )
    # as many threads as Python's own pools have
    assert service.concurrency == min(os.cpu_count() + 4, 32)


def test_a_second_retriever_is_asked_for_by_name(services):
    with pytest.raises(UserError, match=r"docagent\.text_retriever"):
        services.second()
    second = RetrieverService(None)
    assert dataclasses.replace(services, text_retriever=second).second() is second
