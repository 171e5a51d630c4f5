"""A retriever that many ask at a time, and one whose searches run elsewhere."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
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

RETRY_AFTER_S = 0.25
HARMLESS = "page"
"""A query that any retriever answers."""
LONGEST_QUERY = 32_768
"""Characters of a query; the longest that a model has room to write."""
FAULTS = 3
"""Times that a query has to fail where another does not, before it is the query's fault."""
Ask = Callable[[Sequence[str]], Awaitable[list[list[Hit]]]]
_Answer = Future[list[list[Hit]]]
_background: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()


class SearchHost:
    """Runs a blocking retriever for an event loop, `threads` searches at a time.

    `max_waiting` queries wait or are searched for, and more are told to come again; a batch that is larger is
    taken where nothing else waits. A search has `deadline_s` seconds, waiting included; what hangs keeps its
    place until it returns.
    """

    def __init__(
        self, retriever: Retriever, *, threads: int = 8, max_waiting: int = 256, deadline_s: float = 30.0
    ) -> None:
        self._retriever, self._max_waiting, self.deadline_s = retriever, max_waiting, deadline_s
        self._jobs: queue.SimpleQueue[tuple[_Answer, Question]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self.waiting, self._closed = 0, False
        """Queries that wait or are searched for."""
        self._moved_at = time.monotonic()
        """Time at which the last search ended, or the first began after a rest."""
        for _ in range(threads):
            # daemons: a search that hangs does not hold up the end of the process
            threading.Thread(target=self._work, name="docagent-host", daemon=True).start()

    async def search(self, question: Question) -> list[list[Hit]]:
        """Return the result of `Retriever.search`.

        Raises:
            NotTakenError: nothing was searched; the host has too much to do, or is closed.
            TimeoutError: the deadline has passed.
        """
        places = len(question.queries)
        with self._lock:
            if self._closed or (self.waiting and self.waiting + places > self._max_waiting):
                raise NotTakenError(
                    f"as many searches wait as may: come again in {RETRY_AFTER_S:g} s", RETRY_AFTER_S
                )
            if not self.waiting:
                self._moved_at = time.monotonic()
            self.waiting += places
        done = _Answer()
        done.add_done_callback(lambda _: self._leave(places))
        self._jobs.put((done, question))
        async with asyncio.timeout(self.deadline_s):
            return await asyncio.wrap_future(done)

    async def probe(self) -> None:
        """Check that searches come to an end: one for a harmless word, or any other within the deadline.

        Raises:
            TimeoutError: none does.
        """
        try:
            await self.search(Question((HARMLESS,)))
        except (NotTakenError, TimeoutError):
            if time.monotonic() - self._moved_at > self.deadline_s:
                raise TimeoutError from None

    def close(self) -> None:
        """Refuse new searches."""
        self._closed = True

    def _leave(self, places: int) -> None:
        with self._lock:
            self.waiting -= places

    def _work(self) -> None:
        while True:
            done, asked = self._jobs.get()
            if done.set_running_or_notify_cancel():
                self._answer(done, asked)

    def _answer(self, done: _Answer, asked: Question) -> None:
        try:
            found = self._retriever.search(
                list(asked.queries), doc_id=asked.doc_id, top_k=asked.top_k, exclude=asked.exclude
            )
        except Exception as error:  # whatever a retriever raises is its caller's
            self._moved_at = time.monotonic()
            done.set_exception(error)
        else:
            self._moved_at = time.monotonic()
            done.set_result(found)


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
    if any(len(query) > LONGEST_QUERY for query in queries):
        raise QueryRefusedError(f"a query of more than {LONGEST_QUERY} characters")
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
