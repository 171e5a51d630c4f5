"""A retriever that many ask at a time, and one whose searches run elsewhere."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
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
FAULTS = 3
"""Times that a query has to fail where another does not, before it is the query's fault."""
Ask = Callable[[Sequence[str]], Awaitable[list[list[Hit]]]]
_Answer = Future[list[list[Hit]]]
_PROBE, _SEARCH = 0, 1
_background: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()


class SearchHost:
    """Runs a blocking retriever for an event loop.

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
        self._retriever, self._max_waiting, self.deadline_s = retriever, max_waiting, deadline_s
        self._jobs: queue.PriorityQueue[tuple[int, int, _Answer, Question]] = queue.PriorityQueue()
        self._number = itertools.count()
        self._lock = threading.Lock()
        self._held, self._ended, self._closed = 0, 0, False
        self._probe: _Answer | None = None
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
        places = len(question.queries)
        with self._lock:
            if self._closed or (self._held and self._held + places > self._max_waiting):
                raise NotTakenError(
                    f"as many searches wait as may: come again in {RETRY_AFTER_S:g} s", RETRY_AFTER_S
                )
            self._held += places
        done = _Answer()
        done.add_done_callback(lambda _: self._leave(places))
        self._jobs.put((_SEARCH, next(self._number), done, question))
        async with asyncio.timeout(self.deadline_s):
            return await asyncio.wrap_future(done)

    async def probe(self) -> None:
        """Check that searches come to an end: by one for a harmless word, ahead of all that wait.

        Callers at the same time wait for the same search.

        Raises:
            TimeoutError: within the deadline no search has ended, neither this one nor any other.
        """
        ended = self._ended
        if self._probe is None or self._probe.done():
            self._probe = _Answer()
            self._jobs.put((_PROBE, next(self._number), self._probe, Question((HARMLESS,))))
        try:
            async with asyncio.timeout(self.deadline_s):
                # shielded: others wait for it too
                await asyncio.shield(asyncio.wrap_future(self._probe))
        except TimeoutError:
            if self._ended == ended:
                raise

    def close(self) -> None:
        """Refuse new searches."""
        self._closed = True

    def _leave(self, places: int) -> None:
        with self._lock:
            self._held -= places

    def _work(self) -> None:
        while True:
            *_, done, asked = self._jobs.get()
            self._answer(done, asked)

    def _answer(self, done: _Answer, asked: Question) -> None:
        if not done.set_running_or_notify_cancel():
            return
        try:
            found = self._retriever.search(
                list(asked.queries), doc_id=asked.doc_id, top_k=asked.top_k, exclude=asked.exclude
            )
        except Exception as error:  # whatever a retriever raises is its caller's
            self._ended += 1
            done.set_exception(error)
        else:
            self._ended += 1
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
