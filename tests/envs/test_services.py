from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.services import RetrieverService
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval import Hit


class Flaky:
    """A retriever that fails in the given ways and then hands over to a real one."""

    def __init__(self, inner, *failures):
        self.inner, self.failures, self.calls, self.threads = inner, list(failures), 0, set()

    def search(self, queries, **options):
        self.calls += 1
        self.threads.add(threading.get_ident())
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, float):
                time.sleep(failure)
            else:
                raise failure
        return self.inner.search(queries, **options)


def search(retriever, **settings):
    service = RetrieverService(retriever, **{"backoff_s": 0.0, **settings})
    return asyncio.run(service.search("pagek3", doc_id=None, top_k=2))


def test_a_page_whose_name_cannot_be_written_is_a_fault_of_the_retriever(retriever):
    class Broken:
        def search(self, queries, **options):
            return [[Hit(PageRef("K\ud83d", 1), 1.0)]]

    with pytest.raises(InfrastructureError, match=r"'K\\ud83d'.*half a character") as caught:
        search(Broken())
    str(caught.value).encode("utf-8")


def test_searches_in_a_thread(retriever):
    flaky = Flaky(retriever)
    assert [hit.ref for hit in search(flaky)] == [PageRef("K", 3)]
    assert threading.get_ident() not in flaky.threads


@pytest.mark.parametrize("failure", [ConnectionResetError("gone"), TimeoutError(), OSError("disk")])
def test_system_failures_are_tried_again(retriever, failure):
    flaky = Flaky(retriever, failure, failure)
    assert search(flaky)
    assert flaky.calls == 3


def test_attempts_run_out(retriever):
    flaky = Flaky(retriever, *[ConnectionError("refused")] * 9)
    with pytest.raises(
        InfrastructureError, match="retriever: failed after 3 attempts, last: ConnectionError: refused"
    ):
        search(flaky)
    assert flaky.calls == 3


def test_a_hanging_retriever_costs_the_deadline(retriever):
    async def timed():
        service = RetrieverService(Flaky(retriever, 1.0), deadline_s=0.1)
        began = time.perf_counter()
        with pytest.raises(InfrastructureError, match=r"within 0\.1 s"):
            await service.search("pagek3", doc_id=None, top_k=2)
        return time.perf_counter() - began

    assert asyncio.run(timed()) < 0.8


class Slow:
    """A retriever that takes its time, and counts the searches that run together."""

    def __init__(self, inner, seconds):
        self.inner, self.seconds, self.running, self.most, self.lock = inner, seconds, 0, 0, threading.Lock()

    def search(self, queries, **options):
        with self.lock:
            self.running += 1
            self.most = max(self.most, self.running)
        time.sleep(self.seconds)
        with self.lock:
            self.running -= 1
        return self.inner.search(queries, **options)


def many(service, number):
    async def run():
        searches = (service.search("pagek3", doc_id=None, top_k=2) for _ in range(number))
        return await asyncio.gather(*searches, return_exceptions=True)

    return asyncio.run(run())


def test_waiting_for_a_turn_is_no_failure(retriever):
    slow = Slow(retriever, 0.1)
    service = RetrieverService(slow, deadline_s=2.0, concurrency=2, backoff_s=0)
    assert [[hit.ref for hit in hits] for hits in many(service, 60)] == [[PageRef("K", 3)]] * 60
    assert slow.most == 2


def test_more_searches_than_threads_of_the_event_loop(retriever):
    async def run():
        # as many as a machine with one core has
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        service = RetrieverService(Slow(retriever, 0.2), deadline_s=1.5, backoff_s=0)
        searches = (service.search("pagek3", doc_id=None, top_k=2) for _ in range(30))
        return await asyncio.gather(*searches, return_exceptions=True)

    assert [[hit.ref for hit in hits] for hits in asyncio.run(run())] == [[PageRef("K", 3)]] * 30


def test_searches_that_hang_do_not_hold_up_the_next(retriever):
    service = RetrieverService(Flaky(retriever, *[2.0] * 4), deadline_s=0.2, concurrency=2, backoff_s=0)
    results = many(service, 6)
    assert [type(result) for result in results] == [InfrastructureError] * 4 + [list] * 2


@pytest.mark.parametrize("failure", [InfrastructureError("down"), UserError("bad"), ZeroDivisionError("bug")])
def test_other_failures_pass_through(retriever, failure):
    flaky = Flaky(retriever, failure)
    with pytest.raises(type(failure), match=str(failure)):
        search(flaky)
    assert flaky.calls == 1


def test_options_arrive(retriever):
    service = RetrieverService(retriever)
    hits = asyncio.run(service.search("everypage", doc_id="Q", top_k=2, exclude={PageRef("Q", 1)}))
    assert [hit.ref for hit in hits] == [PageRef("Q", 2), PageRef("Q", 3)]
