"""A retriever that many ask at a time, and one whose searches run elsewhere."""

import asyncio
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.text import encodable
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.base import (
    Hit,
    NotTakenError,
    Pages,
    QueryRefusedError,
    Question,
    Retriever,
    ServerFaultError,
    check_queries,
)

HARMLESS = "page"
"""A query that any retriever answers."""
LONGEST_QUERY = 32_768
"""Characters of a query; the longest that a model has room to write."""
FAULTS = 3
"""Times that a query has to fail where another does not, before it is the query's fault."""
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
        self.waiting = 0
        """Queries that wait or are searched for."""
        self._moved_at = time.monotonic()
        """Time at which the last search ended, or the first began after a rest."""
        for _ in range(threads):
            # daemons: a search that hangs does not hold up the end of the process
            threading.Thread(target=self._work, name="docagent-host", daemon=True).start()

    async def search(self, question: Question) -> list[list[Hit]]:
        """Return the result of `Retriever.search`.

        Raises:
            NotTakenError: nothing was searched; the host has too much to do.
            TimeoutError: the deadline has passed.
        """
        places = len(question.queries)
        with self._lock:
            if self.waiting and self.waiting + places > self._max_waiting:
                raise NotTakenError("as many searches wait as may: come again")
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


class RemoteRetriever(ABC):
    """A retriever whose searches run elsewhere: awaited, or asked by threads. Callers try again.

    `refuses_all` is the message where the service refuses any query.
    """

    def __init__(self, store: DocumentStore, refuses_all: str) -> None:
        self._store, self._refuses_all = store, refuses_all

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

    async def asearch(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `AsyncRetriever.asearch`.

        A query that is refused, or that makes the service fail `FAULTS` times while it answers a harmless one
        in its place each time, is at fault.

        Raises:
            UserError: the store has no such document.
            QueryRefusedError: the queries are at fault.
            InfrastructureError: the service refuses any query, or is set up otherwise than it should be.
        """
        check_queries(queries, top_k)
        if doc_id is not None and doc_id not in self._store:
            self._store.document(doc_id)  # says what there is
        if any(len(query) > LONGEST_QUERY for query in queries):
            raise QueryRefusedError(f"a query of more than {LONGEST_QUERY} characters")
        asked = Question(tuple(map(encodable, queries)), doc_id, int(top_k), frozenset(exclude))
        harmless, faults = replace(asked, queries=(HARMLESS,)), 0
        while True:
            try:
                return await self._ask(asked)
            except QueryRefusedError as refused:
                try:
                    await self._ask(harmless)
                except QueryRefusedError:
                    raise InfrastructureError(f"{self._refuses_all} ({refused})") from None
                raise
            except ServerFaultError as error:
                faults += 1
                # raises where the service answers nothing else either
                await self._ask(harmless)
                if faults == FAULTS:
                    raise QueryRefusedError(f"the service fails at it and at nothing else: {error}") from None

    @abstractmethod
    async def _ask(self, asked: Question) -> list[list[Hit]]:
        """Return the answer of the service to one request."""
