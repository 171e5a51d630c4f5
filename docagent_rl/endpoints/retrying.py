"""Calls of services that may fail: places, attempts, one deadline, many in order, and shared
answers.
"""

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
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import cachetools

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.text import visible

T = TypeVar("T")
J = TypeVar("J")
_LONGEST_WAIT_S = 8.0
"""Seconds of backoff at most: a service that is there again is asked soon."""
_LEAST_WAIT_S = 0.05
"""Before a call that was not taken is made again, which may be as often as the deadline lets."""
LONGEST_ASKED_WAIT_S = 120.0
"""Seconds that a service may ask to wait; it is asked again after these when it asks for more."""

_background: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()
_SECONDS = re.compile(r"\d{1,9}(\.\d{1,9})?")


class Places:
    """A limit on the calls at a time; every event loop has its own."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._free: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    @asynccontextmanager
    async def hold(self, clock: asyncio.Timeout) -> AsyncGenerator[None]:
        """Hold a place. While none is free the clock, a running deadline, stands still."""
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
    places: Places,
    attempts: int,
    deadline_s: float,
    backoff_s: float,
    retry_on: tuple[type[Exception], ...],
    give_up_on: tuple[type[Exception], ...] = (),
    uncounted: tuple[type[Exception], ...] = (),
) -> T:
    """Await `call()` until it succeeds.

    A failure of `retry_on` may say in `retry_after_s` how many seconds the service asks to wait.
    The next attempt comes no sooner, up to `LONGEST_ASKED_WAIT_S`; when the deadline comes sooner,
    there is none.

    Args:
        call: makes a fresh awaitable for every attempt.
        what: name of the service for the error message.
        places: one is held by each attempt, and none during the backoff.
        attempts: at most.
        deadline_s: seconds for all attempts and the backoff between them, without waiting for a
            place.
        backoff_s: seconds before the second attempt, doubled every time, up to as much again added
            at random.
        retry_on: failures after which to try again.
        give_up_on: failures of the service that another attempt would not change.
        uncounted: those of `retry_on` that are no attempts, for the service did not take the call
            (it is busy, or about to start again): only the deadline ends them.

    Raises:
        InfrastructureError: the attempts or the deadline are spent, or a failure of `give_up_on`.
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
                    async with places.hold(deadline):
                        return await call()
                except retry_on as error:
                    last = error
                counted += not isinstance(last, uncounted)
                left = (deadline.when() or math.inf) - loop.time()
                # a deadline that has just passed ends this at the next wait, and says so
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
    """Return the result of a coroutine, run on an event loop that the threads of this process
    share.
    """
    with _lock:
        if not _background:
            loop = asyncio.new_event_loop()
            threading.Thread(
                target=loop.run_forever, name="docagent-background", daemon=True
            ).start()
            _background.append(loop)
    return asyncio.run_coroutine_threadsafe(work, _background[0]).result()


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a service asks to wait (`Retry-After`, RFC 9110, section 10.2.3);
    dates are not read.
    """
    asked = headers.get("retry-after", "").strip()
    return float(asked) if _SECONDS.fullmatch(asked) else None


def _asked(error: Exception) -> float:
    return min(getattr(error, "retry_after_s", None) or 0.0, LONGEST_ASKED_WAIT_S)


def _wait(error: Exception, made: int, backoff_s: float) -> float:
    """Return the seconds before the next of `made` attempts; those told the same do not come
    together.
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
    """Do all jobs, in their order, `at_once` at a time, and call `done` after each.

    When one fails no other is begun, and those at work come to their end: what they ask for is paid
    for already. Then the first failure is raised.
    """
    waiting = iter(jobs)
    failures = []

    async def worker(jobs: Iterator[J]) -> None:
        for job in jobs:
            try:
                await work(job)
            except Exception as error:  # whatever it is: raised below, when the others have ended
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


class Answers(Generic[T]):
    """Answers of one service by question, for several event loops; equal questions in flight share
    one.

    Failures are shared and not kept. A `capacity` of 0 keeps no answer, `None` shares none either.
    """

    def __init__(self, capacity: int | None) -> None:
        self._capacity = capacity
        self._known: cachetools.LRUCache[Hashable, T] = cachetools.LRUCache(capacity or 1)
        self._lock = threading.Lock()
        self._coming: WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[Hashable, asyncio.Future[T]]
        ] = WeakKeyDictionary()

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the answer, and whether somebody else had asked for it."""
        if self._capacity is None:
            return await ask(), False
        with self._lock:
            if question in self._known:
                return self._known[question], True
        coming = self._coming.setdefault(asyncio.get_running_loop(), {})
        task = coming.get(question)
        shared = True
        if task is None:
            task = asyncio.ensure_future(ask())
            shared = False
            coming[question] = task

            def settle(done: asyncio.Future[T]) -> None:
                coming.pop(question, None)
                if self._capacity and not done.cancelled() and done.exception() is None:
                    with self._lock:
                        self._known[question] = done.result()

            task.add_done_callback(settle)
        # who gives up does not take the answer from those who wait with him
        return await asyncio.shield(task), shared
