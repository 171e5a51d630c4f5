"""Calls of services that may fail: retries, deadlines, limits on concurrency, shared answers."""

import asyncio
import math
import random
import re
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import cachetools

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.text import visible

T = TypeVar("T")
J = TypeVar("J")
_LONGEST_WAIT_S = 8.0
"""Maximum backoff in seconds, so that a service that has recovered is called soon."""
_LEAST_WAIT_S = 0.05
"""Minimum seconds between attempts, of which there may be any number until the deadline."""
LONGEST_ASKED_WAIT_S = 120.0
"""Maximum seconds to wait if a service asks for a pause, even if it asks for a longer one."""

_background: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


class ConcurrencyLimit:
    """A limit on the number of concurrent calls, separate for every event loop."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    @asynccontextmanager
    async def slot(self, clock: asyncio.Timeout) -> AsyncGenerator[None]:
        """Occupy one slot; while waiting for a free one, the deadline `clock` is paused."""
        loop = asyncio.get_running_loop()
        left = (clock.when() or loop.time()) - loop.time()
        clock.reschedule(None)
        async with self._free.setdefault(loop, asyncio.Semaphore(self._number)):
            clock.reschedule(loop.time() + left)
            yield


async def call_service(
    call: Callable[[], Awaitable[T]],
    *,
    what: str,
    limit: ConcurrencyLimit,
    attempts: int,
    deadline_s: float,
    backoff_s: float,
    retry_on: tuple[type[Exception], ...],
    give_up_on: tuple[type[Exception], ...] = (),
    uncounted: tuple[type[Exception], ...] = (),
) -> T:
    """Await `call()`, and retry it until it succeeds.

    An exception in `retry_on` may have an attribute `retry_after_s`, the seconds that the service
    asks to wait. The next attempt is not made earlier (up to `LONGEST_ASKED_WAIT_S`), or not at all
    if the deadline comes first.

    Args:
        call: returns a new awaitable for every attempt.
        what: name of the service for the error message.
        limit: limit on concurrent attempts; the backoff between attempts does not count.
        attempts: maximum number of attempts.
        deadline_s: maximum seconds for all attempts and the backoff between them, without the time
            of waiting for `limit`.
        backoff_s: seconds before the second attempt, doubled every time; up to as many seconds are
            added at random.
        retry_on: exceptions after which to try again.
        give_up_on: exceptions after which another attempt would be pointless.
        uncounted: exceptions in `retry_on` that do not count as attempts, since the service did not
            accept the call (it is busy or restarting): these are retried until the deadline.

    Raises:
        InfrastructureError: The attempts are used up, the deadline has passed, or an exception in
            `give_up_on` was raised.
    """
    deadline = asyncio.timeout(deadline_s)
    loop = asyncio.get_running_loop()
    made = 0
    counted = 0
    last = None
    try:
        async with deadline:
            while True:
                made += 1
                try:
                    async with limit.slot(deadline):
                        return await call()
                except retry_on as error:
                    last = error
                counted += not isinstance(last, uncounted)
                left = (deadline.when() or math.inf) - loop.time()
                # if the deadline has just passed, the next wait raises its error
                if counted >= attempts or _asked(last) > max(left, 0.0):
                    raise last
                await asyncio.sleep(_wait(last, made, backoff_s))
    except (*retry_on, *give_up_on, TimeoutError) as error:
        if not deadline.expired():
            raise InfrastructureError(
                f"{what}: failed after {made} attempts, last: {describe_error(error)}"
            ) from error
        cause = last if isinstance(last, uncounted) else error
        before = f"; before: {describe_error(last)}" if last else ""
        raise InfrastructureError(f"{what}: no result within {deadline_s:g} s{before}") from cause


def in_background(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on an event loop shared by all threads of the process; return its result."""
    with _lock:
        if not _background:
            loop = asyncio.new_event_loop()
            threading.Thread(
                target=loop.run_forever, name="docagent-background", daemon=True
            ).start()
            _background.append(loop)
    return asyncio.run_coroutine_threadsafe(work, _background[0]).result()


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After` (RFC 9110, section 10.2.3); dates are ignored."""
    asked = headers.get("retry-after", "").strip()
    return float(asked) if _SECONDS.fullmatch(asked) else None


def _asked(error: Exception) -> float:
    return min(getattr(error, "retry_after_s", None) or 0.0, LONGEST_ASKED_WAIT_S)


def _wait(error: Exception, made: int, backoff_s: float) -> float:
    """Return the seconds to wait after `made` attempts.

    A random part spreads the attempts of clients that were told the same.
    """
    backoff = min(backoff_s * 2.0 ** min(made - 1, 60), _LONGEST_WAIT_S)
    return max(backoff, _asked(error), _LEAST_WAIT_S) + random.uniform(0, backoff_s)


async def run_jobs(
    jobs: Iterable[J],
    work: Callable[[J], Awaitable[None]],
    *,
    at_once: int,
    done: Callable[[], None] | None = None,
) -> None:
    """Run all jobs in order, `at_once` at a time, and call `done` after each.

    If one fails, no other is started, but those that are running are completed, since their
    requests have been paid for. Then the first failure is raised.
    """
    waiting = iter(jobs)
    failures = []

    async def worker(jobs: Iterator[J]) -> None:
        for job in jobs:
            try:
                await work(job)
            except Exception as error:  # raised below, after the others have ended
                failures.append(error)
            if failures:
                return
            if done is not None:
                done()

    await asyncio.gather(*(worker(waiting) for _ in range(at_once)))
    if failures:
        raise failures[0]


def describe_error(error: BaseException) -> str:
    """Return one line about an error: its type and the first line of its message."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {visible(lines[0][:300])}" if lines else type(error).__name__


@dataclass(slots=True)
class _SharedCall(Generic[T]):
    """A call in flight, and the number of callers that wait for its answer."""

    task: asyncio.Future[T]
    waiting: int = 0


class AnswerCache(Generic[T]):
    """A cache of a service's answers, for several event loops; equal calls in flight share one.

    Failures are shared but not cached. A call is cancelled when all who wait for its answer are. A
    `capacity` of 0 caches no answer; None does not share any, either.
    """

    def __init__(self, capacity: int | None) -> None:
        self._capacity = capacity
        self._known: cachetools.LRUCache[Hashable, T] = cachetools.LRUCache(capacity or 1)
        self._lock = threading.Lock()
        self._coming: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[Hashable, _SharedCall[T]]
        ] = WeakKeyDictionary()

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the answer, and whether it comes from the cache or from another caller."""
        if self._capacity is None:
            return await ask(), False
        with self._lock:
            if question in self._known:
                return self._known[question], True
        coming = self._coming.setdefault(asyncio.get_running_loop(), {})
        known_call = coming.get(question)
        call = known_call or _SharedCall(asyncio.ensure_future(ask()))
        if known_call is None:
            coming[question] = call

            def keep_answer(done: asyncio.Future[T]) -> None:
                if coming.get(question) is call:
                    del coming[question]
                if self._capacity and not done.cancelled() and done.exception() is None:
                    with self._lock:
                        self._known[question] = done.result()

            call.task.add_done_callback(keep_answer)
        call.waiting += 1
        try:
            # shielded, so that a caller that is cancelled does not cancel the others' call
            return await asyncio.shield(call.task), known_call is not None
        finally:
            call.waiting -= 1
            if not call.waiting and not call.task.done():
                # nobody would use the answer; a later caller makes a call of its own
                del coming[question]
                call.task.cancel()
