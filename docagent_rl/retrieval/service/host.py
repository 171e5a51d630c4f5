"""The host of a retriever with many concurrent clients, and the base class of those clients."""

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
"""A query that any retriever can process."""
LONGEST_QUERY = 32_768
"""Maximum characters of a query, which is as many as a model has room to write."""
FAULTS = 3
"""Failures of a query, while a harmless one succeeds, after which it is taken for the cause."""
_QUERIES_A_TURN = 16
_CHARACTERS_A_TURN = 2 * LONGEST_QUERY
"""Limits of the part of a batch that is processed before other searches have their turn."""
_FIRST = 0
"""The rank of a probe; searches have rank 1, and are processed in order."""


@dataclass(slots=True)
class _Job:
    """A search and its hits so far."""

    question: SearchArguments
    done: Future[list[list[Hit]]] = field(default_factory=Future)
    found: list[list[Hit]] = field(default_factory=list)
    begun: int = 0
    """Number of queries that have had their turn."""
    is_running: bool = False
    """True while a thread works on it."""
    is_released: bool = False
    """True if its queries no longer count as waiting."""

    def next_queries(self) -> list[str]:
        """Return the queries of the next turn, and count them as begun."""
        taken: list[str] = []
        for query in self.question.queries[self.begun :][:_QUERIES_A_TURN]:
            if taken and sum(map(len, taken)) + len(query) > _CHARACTERS_A_TURN:
                break
            taken.append(query)
        self.begun += len(taken)
        return taken


class SearchHost:
    """A host that runs a blocking retriever for an event loop, `threads` searches at a time.

    At most `max_waiting` queries wait or run, and further ones are rejected; a larger batch is
    accepted only if nothing else waits. Large batches are processed in turns, between which other
    searches have theirs. A search may take `deadline_s` seconds, waiting included; one that hangs
    counts as running until it returns.
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
        """Number of queries that wait or run."""
        self._progress_at = time.monotonic()
        """Time at which the last turn ended, or the first one began after idle time."""
        for _ in range(threads):
            # daemons, so that a search that hangs does not prevent the process from ending
            threading.Thread(target=self._work, name="docagent-host", daemon=True).start()

    async def search(self, question: SearchArguments) -> list[list[Hit]]:
        """Return the result of `Retriever.search`.

        Raises:
            NotTakenError: Too many queries are waiting; nothing was searched.
            TimeoutError: The deadline has passed; queries that are still waiting are dropped.
        """
        with self._lock:
            if self.waiting and self.waiting + len(question.queries) > self._max_waiting:
                raise NotTakenError("too many searches are waiting: try again later")
            job = self._enqueue(question)
        async with asyncio.timeout(self.deadline_s):
            return await asyncio.wrap_future(job.done)

    async def probe(self) -> None:
        """Check that searches are completed within the deadline.

        A search for a harmless word is queued first; if it does not end in time, any other search
        that has ended counts as well. Concurrent calls share one search.

        Raises:
            TimeoutError: No search has ended.
        """
        with self._lock:
            if self._probe is None or self._probe.done.done():
                is_full = self.waiting >= self._max_waiting
                self._probe = (
                    None if is_full else self._enqueue(SearchArguments((HARMLESS,)), _FIRST)
                )
            job = self._probe
        if job is None:
            self._check_progress()
            return
        try:
            async with asyncio.timeout(self.deadline_s):
                await asyncio.shield(asyncio.wrap_future(job.done))
        except TimeoutError:
            self._check_progress()

    def _check_progress(self) -> None:
        if time.monotonic() - self._progress_at > self.deadline_s:
            raise TimeoutError

    def _enqueue(self, question: SearchArguments, rank: int = 1) -> _Job:
        """Queue a search and count its queries as waiting; the caller must hold the lock."""
        if not self.waiting:
            self._progress_at = time.monotonic()
        self.waiting += len(question.queries)
        job = _Job(question)
        job.done.add_done_callback(lambda _: self._release(job))
        self._jobs.put((rank, next(self._turns), job))
        return job

    def _release(self, job: _Job) -> None:
        """Stop counting the queries of a search that has ended or timed out, if it does not run."""
        with self._lock:
            if not (job.is_running or job.is_released):
                job.is_released = True
                self.waiting -= len(job.question.queries)

    def _work(self) -> None:
        while True:
            rank, _, job = self._jobs.get()
            with self._lock:
                job.is_running = not job.done.cancelled()
            if job.is_running:
                self._turn(rank, job)

    def _turn(self, rank: int, job: _Job) -> None:
        """Search for the next queries of a job."""
        asked = job.question
        failure = None
        try:
            job.found += self._retriever.search(
                job.next_queries(), doc_id=asked.doc_id, top_k=asked.top_k, exclude=asked.exclude
            )
        except Exception as error:  # the caller of the search gets it
            failure = error
        self._progress_at = time.monotonic()
        with self._lock:
            job.is_running = False
            timed_out = job.done.cancelled()
        if timed_out:
            self._release(job)
        elif failure is None and job.begun < len(asked.queries):
            self._jobs.put((rank, next(self._turns), job))
        elif job.done.set_running_or_notify_cancel():
            if failure is None:
                job.done.set_result(job.found)
            else:
                job.done.set_exception(failure)


class RemoteRetriever(ABC):
    """A retriever whose searches run elsewhere, for event loops and threads. Callers should retry.

    `refuses_all` is the error message if the service refuses all queries.
    """

    def __init__(self, store: DocumentStore, refuses_all: str) -> None:
        self._store = store
        self._refuses_all = refuses_all

    def search(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """Search as `asearch` does, on an event loop shared by the threads of this process."""
        return in_background(self.asearch(queries, doc_id=doc_id, top_k=top_k, exclude=exclude))

    async def asearch(
        self, queries: Sequence[str], *, doc_id: str | None = None, top_k: int, exclude: Pages = ()
    ) -> list[list[Hit]]:
        """See `AsyncRetriever.asearch`.

        A query is at fault if it is refused, or if the service fails at it `FAULTS` times and each
        time processes a harmless query instead.

        Raises:
            UserError: The store has no such document.
            QueryRefusedError: A query is at fault.
            InfrastructureError: The service refuses all queries, or is configured wrongly.
        """
        check_queries(queries, top_k)
        if doc_id is not None and doc_id not in self._store:
            self._store.document(doc_id)  # raises an error that names similar documents
        if any(len(query) > LONGEST_QUERY for query in queries):
            raise QueryRefusedError(f"a query has more than {LONGEST_QUERY} characters")
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
                # raises an error if the service fails at other queries, too
                await self._ask(harmless)
                if faults == FAULTS:
                    raise QueryRefusedError(
                        f"the service fails only at this query: {error}"
                    ) from None

    @abstractmethod
    async def _ask(self, asked: SearchArguments) -> list[list[Hit]]:
        """Send one request to the service, and return the hits."""
