"""A retriever that many ask at a time, and one whose searches run elsewhere."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.retrieval.base import (
    AsyncRetriever,
    Hit,
    NotTakenError,
    Pages,
    QueryRefusedError,
    Question,
    Retriever,
    ServerFaultError,
)

MOST_TOGETHER = 16
"""Queries that one call of the retriever answers, where they wait at the same time and search alike."""
_LOOKED_AT = 64
RETRY_AFTER_S = 0.25
HARMLESS = "page"
"""A query that any retriever answers."""
FAULTS = 3
"""Times that a query has to fail where another does not, before it is the query's fault."""
Ask = Callable[[Sequence[str]], Awaitable[list[list[Hit]]]]
_background: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()


@dataclass(slots=True, eq=False)
class _Job:
    question: Question
    places: int
    """Places that it takes of `max_waiting`."""
    done: Future[list[list[Hit]]] = field(default_factory=Future)


class SearchHost:
    """Runs a blocking retriever for an event loop.

    Queries that wait at the same time and differ in nothing else go to the retriever together; where such a
    call fails, each is asked alone, so that one query fails for itself.

    Args:
        retriever: may be called from several threads at once.
        threads: searches at a time.
        max_waiting: queries that wait or are searched for; more are told to come again. A batch that is
            larger is taken where nothing else waits.
        deadline_s: seconds of one search, waiting included. What hangs keeps its place until it returns.
    """

    def __init__(
        self, retriever: Retriever, *, threads: int = 8, max_waiting: int = 256, deadline_s: float = 30.0
    ) -> None:
        self.retriever, self.max_waiting, self.deadline_s = retriever, max_waiting, deadline_s
        self._jobs: deque[_Job] = deque()
        self._there = threading.Condition()
        self._held, self._closed = 0, False
        self._ended = 0
        self._probe: _Job | None = None
        for _ in range(threads):
            # daemons: a search that hangs does not hold up the end of the process
            threading.Thread(target=self._work, name="docagent-host", daemon=True).start()

    @property
    def waiting(self) -> int:
        """Queries that wait or are searched for."""
        return self._held

    async def search(self, question: Question) -> list[list[Hit]]:
        """Return the result of `Retriever.search`.

        Raises:
            NotTakenError: nothing was searched; the host has too much to do, or is closed.
            TimeoutError: the deadline has passed.
        """
        if not question.queries:
            return []
        job = _Job(question, len(question.queries))
        with self._there:
            if self._closed or (self._held and self._held + job.places > self.max_waiting):
                raise _busy()
            self._held += job.places
            self._jobs.append(job)
            self._there.notify()
        job.done.add_done_callback(lambda _: self._leave(job))
        async with asyncio.timeout(self.deadline_s):
            return await asyncio.wrap_future(job.done)

    async def probe(self) -> None:
        """Check that searches come to an end: by one for a harmless word, ahead of all that wait.

        It takes no place of theirs. Callers at the same time wait for the same search.

        Raises:
            NotTakenError: the host is closed.
            TimeoutError: within the deadline no search has ended, neither this one nor any other.
        """
        with self._there:
            if self._closed:
                raise _busy()
            if self._probe is None or self._probe.done.done():
                self._probe = _Job(Question((HARMLESS,)), places=0)
                self._jobs.appendleft(self._probe)
                self._there.notify()
            done, ended = self._probe.done, self._ended
        try:
            async with asyncio.timeout(self.deadline_s):
                # shielded: others wait for it too
                await asyncio.shield(asyncio.wrap_future(done))
        except TimeoutError:
            if self._ended == ended:
                raise

    def close(self) -> None:
        """Refuse new searches, and give up those that wait."""
        with self._there:
            self._closed = True
            jobs, self._jobs = list(self._jobs), deque()
            self._there.notify_all()
        for job in jobs:
            job.done.cancel()

    def _leave(self, job: _Job) -> None:
        if not job.done.cancelled():  # one that is searched for is let go by its thread
            return
        with self._there, suppress(ValueError):
            self._jobs.remove(job)
            self._held -= job.places

    def _work(self) -> None:
        while True:
            with self._there:
                while not self._jobs:
                    if self._closed:
                        return
                    self._there.wait()
                jobs = self._together()
            try:
                self._answer([job for job in jobs if job.done.set_running_or_notify_cancel()])
            finally:
                with self._there:
                    self._held -= sum(job.places for job in jobs)

    def _together(self) -> list[_Job]:
        """Return the first that waits and those that can be asked with it."""
        first = self._jobs.popleft()
        jobs, asked = [first], first.question
        for job in list(self._jobs)[:_LOOKED_AT]:
            queries = asked.queries + job.question.queries
            together = replace(asked, queries=queries)
            if together == replace(job.question, queries=queries) and len(queries) <= MOST_TOGETHER:
                self._jobs.remove(job)
                jobs.append(job)
                asked = together
        return jobs

    def _answer(self, jobs: list[_Job]) -> None:
        if not jobs:
            return
        asked = jobs[0].question
        queries = [query for job in jobs for query in job.question.queries]
        try:
            found = iter(self._search(asked, queries))
            answers = [[next(found) for _ in job.question.queries] for job in jobs]
        except Exception as error:  # whatever a retriever raises is its caller's
            if len(jobs) > 1:
                for job in jobs:
                    self._answer([job])
                return
            if isinstance(error, StopIteration):  # which no future takes
                error = RuntimeError("the retriever answers fewer queries than it was asked")
            if isinstance(error, CancelledError):
                error = RuntimeError("the retriever was interrupted")
            jobs[0].done.set_exception(error)
            return
        for job, answer in zip(jobs, answers, strict=True):
            job.done.set_result(answer)

    def _search(self, asked: Question, queries: list[str]) -> list[list[Hit]]:
        try:
            return self.retriever.search(
                queries, doc_id=asked.doc_id, top_k=asked.top_k, exclude=asked.exclude
            )
        finally:
            with self._there:  # before anybody hears of it: a probe that comes later waits for another one
                self._ended += 1


def _busy() -> NotTakenError:
    return NotTakenError(f"as many searches wait as may: come again in {RETRY_AFTER_S:g} s", RETRY_AFTER_S)


class RemoteRetriever(AsyncRetriever, Protocol):
    """An `AsyncRetriever` that threads may ask too."""

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Search as `asearch`, on an event loop that the threads of this process share."""
        with _lock:
            if not _background:
                loop = asyncio.new_event_loop()
                threading.Thread(target=loop.run_forever, name="docagent-background", daemon=True).start()
                _background.append(loop)
        work = self.asearch(queries, doc_id=doc_id, top_k=top_k, exclude=exclude)
        return asyncio.run_coroutine_threadsafe(work, _background[0]).result()


async def ask_blaming(ask: Ask, queries: Sequence[str], *, refuses_all: str) -> list[list[Hit]]:
    """Return the answers of a service to queries, by one request of `ask` with these queries.

    A query that is refused, or that makes a service fail `FAULTS` times while it answers a harmless one in
    its place each time, is at fault. `refuses_all` is the message where the harmless one is refused as well.

    Raises:
        QueryRefusedError: the queries are at fault.
        InfrastructureError: the service refuses any query.
        ServiceFailedError: it fails otherwise.
    """
    faults = 0
    while True:
        try:
            return await ask(queries)
        except QueryRefusedError as refused:
            try:
                await ask([HARMLESS])
            except QueryRefusedError:
                raise InfrastructureError(f"{refuses_all} ({refused})") from None
            raise
        except ServerFaultError as error:
            faults += 1
            # raises where the service answers nothing else either
            await ask([HARMLESS])
            if faults == FAULTS:
                raise QueryRefusedError(f"the service fails at it and at nothing else: {error}") from None
