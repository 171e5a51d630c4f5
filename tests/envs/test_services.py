from __future__ import annotations

import asyncio
import threading
import time

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.services import RetrieverService
from docagent_rl.errors import InfrastructureError, UserError


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
