"""A retriever that many ask at a time, and one whose searches run elsewhere."""

import asyncio
import itertools
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.text import encodable
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.retrying import in_background
from docagent_rl.retrieval.base import (
    Hit,
    NotTakenError,
    Pages,
    QueryRefusedError,
    Retriever,
    SearchArguments,
    ServerFaultError,
    check_queries,
)

HARMLESS = "page"
"""A query that any retriever answers."""
LONGEST_QUERY = 32_768
"""Characters of a query; the longest that a model has room to write."""
FAULTS = 3
"""Times that a query has to fail where another does not, before it is the query's fault."""
_QUERIES_A_TURN = 16
_CHARACTERS_A_TURN = 2 * LONGEST_QUERY
"""At most, of a batch, before other searches have their turn."""
_FIRST = 0
"""The rank of a probe; others have 1, and come in their order."""


@dataclass(slots=True)
class _Job:
    """A search, and what was found of it so far."""

    question: SearchArguments
    done: Future[list[list[Hit]]] = field(default_factory=Future)
    found: list[list[Hit]] = field(default_factory=list)
    begun: int = 0
    """Queries that had their turn."""
    is_searched: bool = False
    """A thread is at work for it."""
    has_left: bool = False
    """Its places are free again."""

    def slice(self) -> list[str]:
        """Return the queries of the next turn, which begins."""
        taken: list[str] = []
        for query in self.question.queries[self.begun :][:_QUERIES_A_TURN]:
            if taken and sum(map(len, taken)) + len(query) > _CHARACTERS_A_TURN:
                break
            taken.append(query)
        self.begun += len(taken)
        return taken


class SearchHost:
    """Runs a blocking retriever for an event loop, `threads` searches at a time.

    `max_waiting` queries wait or are searched for, and more are told to come again; a batch that is
    larger is taken where nothing else waits. Large batches are searched for in turns, between which
    others have theirs. A search has `deadline_s` seconds, waiting included; what hangs keeps its
    place until it returns.
    """

    def __init__(
        self,
        retriever: Retriever,
        *,
        threads: int = 8,
        max_waiting: int = 256,
        deadline_s: float = 30.0,
    ) -> None:
        self._retriever = retriever
        self._max_waiting = max_waiting
        self.deadline_s = deadline_s
        self._jobs: queue.PriorityQueue[tuple[int, int, _Job]] = queue.PriorityQueue()
        self._turns = itertools.count()
        self._lock = threading.Lock()
        self._probe: _Job | None = None
        self.waiting = 0
        """Queries that wait or are searched for."""
        self._moved_at = time.monotonic()
        """Time at which the last turn ended, or the first began after a rest."""
        for _ in range(threads):
            # daemons: a search that hangs does not hold up the end of the process
            threading.Thread(target=self._work, name="docagent-host", daemon=True).start()

    async def search(self, question: SearchArguments) -> list[list[Hit]]:
        """Return the result of `Retriever.search`.

        Raises:
            NotTakenError: nothing was searched; the host has too much to do.
            TimeoutError: the deadline has passed; queries whose turn has not come are not searched
                for.
        """
        places = len(question.queries)
        with self._lock:
            if self.waiting and self.waiting + places > self._max_waiting:
                raise NotTakenError("as many searches wait as may: come again")
            job = self._take(question)
        async with asyncio.timeout(self.deadline_s):
            return await asyncio.wrap_future(job.done)

    async def probe(self) -> None:
        """Check that searches come to an end: one for a harmless word, whose turn is the next, or
        any other within the deadline. Those who ask at a time share one.

        Raises:
            TimeoutError: none does.
        """
        with self._lock:
            if self._probe is None or self._probe.done.done():
                is_full = self.waiting >= self._max_waiting
                self._probe = None if is_full else self._take(SearchArguments((HARMLESS,)), _FIRST)
            job = self._probe
        if job is None:
            self._see_movement()
            return
        try:
            async with asyncio.timeout(self.deadline_s):
                await asyncio.shield(asyncio.wrap_future(job.done))
        except TimeoutError:
            self._see_movement()

    def _see_movement(self) -> None:
        if time.monotonic() - self._moved_at > self.deadline_s:
            raise TimeoutError

    def _take(self, question: SearchArguments, rank: int = 1) -> _Job:
        """Give a search its places; the lock is held."""
        if not self.waiting:
            self._moved_at = time.monotonic()
        self.waiting += len(question.queries)
        job = _Job(question)
        job.done.add_done_callback(lambda _: self._leave(job))
        self._jobs.put((rank, next(self._turns), job))
        return job

    def _leave(self, job: _Job) -> None:
        """Free the places of a search that is done, or was given up; a thread that is at work keeps
        them.
        """
        with self._lock:
            if not (job.is_searched or job.has_left):
                job.has_left = True
                self.waiting -= len(job.question.queries)

    def _work(self) -> None:
        while True:
            rank, _, job = self._jobs.get()
            with self._lock:
                job.is_searched = not job.done.cancelled()
            if job.is_searched:
                self._turn(rank, job)

    def _turn(self, rank: int, job: _Job) -> None:
        """Search for some queries of a job."""
        asked = job.question
        failure = None
        try:
            job.found += self._retriever.search(
                job.slice(), doc_id=asked.doc_id, top_k=asked.top_k, exclude=asked.exclude
            )
        except Exception as error:  # whatever a retriever raises is its caller's
            failure = error
        self._moved_at = time.monotonic()
        with self._lock:
            job.is_searched = False
            given_up = job.done.cancelled()
        if given_up:
            self._leave(job)
        elif failure is None and job.begun < len(asked.queries):
            self._jobs.put((rank, next(self._turns), job))
        elif job.done.set_running_or_notify_cancel():
            if failure is None:
                job.done.set_result(job.found)
            else:
                job.done.set_exception(failure)


class RemoteRetriever(ABC):
    """A retriever whose searches run elsewhere: awaited, or asked by threads. Callers try again.

    `refuses_all` is the message where the service refuses any query.
    """

    def __init__(self, store: DocumentStore, refuses_all: str) -> None:
        self._store = store
        self._refuses_all = refuses_all

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Search as `asearch`, on an event loop that the threads of this process share."""
        return in_background(self.asearch(queries, doc_id=doc_id, top_k=top_k, exclude=exclude))

    async def asearch(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `AsyncRetriever.asearch`.

        A query that is refused, or that makes the service fail `FAULTS` times while it answers a
        harmless one in its place each time, is at fault.

        Raises:
            UserError: the store has no such document.
            QueryRefusedError: the queries are at fault.
            InfrastructureError: the service refuses any query, or is set up otherwise than it
                should be.
        """
        check_queries(queries, top_k)
        if doc_id is not None and doc_id not in self._store:
            self._store.document(doc_id)  # says what there is
        if any(len(query) > LONGEST_QUERY for query in queries):
            raise QueryRefusedError(f"a query of more than {LONGEST_QUERY} characters")
        asked = SearchArguments(
            tuple(map(encodable, queries)), doc_id, int(top_k), frozenset(exclude)
        )
        harmless = replace(asked, queries=(HARMLESS,))
        faults = 0
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
                    raise QueryRefusedError(
                        f"the service fails at it and at nothing else: {error}"
                    ) from None

    @abstractmethod
    async def _ask(self, asked: SearchArguments) -> list[list[Hit]]:
        """Return the answer of the service to one request."""
