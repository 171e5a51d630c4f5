"""Calling services that may fail: places, attempts, backoff, one deadline; and many calls in order."""

from __future__ import annotations

import asyncio
import math
import random
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    wait_exponential_jitter,
)

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.terminal import visible

T = TypeVar("T")
J = TypeVar("J")
_LONGEST_WAIT_S = 20.0
_LEAST_WAIT_S = 0.05
"""Before a call that was not taken is made again, which may be as often as the deadline lets."""
LONGEST_ASKED_WAIT_S = 120.0
"""Seconds that a service may ask to wait; it is asked again after these when it asks for more."""


class Places:
    """A limit on the calls in flight; every event loop has its own.

    Args:
        number: calls in flight at most.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._free: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )

    @asynccontextmanager
    async def taken(self, clock: asyncio.Timeout) -> AsyncGenerator[None]:
        """Hold a place. While none is free the clock stands still.

        Args:
            clock: a running deadline.
        """
        loop = asyncio.get_running_loop()
        free = self._free.setdefault(loop, asyncio.Semaphore(self._number))
        left = (clock.when() or loop.time()) - loop.time()
        clock.reschedule(None)
        async with free:
            clock.reschedule(loop.time() + left)
            yield


async def call_service(
    call: Callable[[], Awaitable[T]],
    *,
    what: str,
    attempts: int,
    deadline_s: float,
    backoff_s: float,
    retry_on: tuple[type[Exception], ...],
    give_up_on: tuple[type[Exception], ...] = (),
    places: Places | None = None,
    uncounted: tuple[type[Exception], ...] = (),
    longest_wait_s: float = _LONGEST_WAIT_S,
) -> T:
    """Await `call()` until it succeeds.

    A failure of `retry_on` may say in `retry_after_s` how many seconds the service asks to wait. The next
    attempt comes no sooner, up to `LONGEST_ASKED_WAIT_S`; when the deadline comes sooner, there is none.

    Args:
        call: makes a fresh awaitable for every attempt.
        what: name of the service for the error message.
        attempts: number of calls at most.
        deadline_s: seconds for all attempts and the backoff between them. Waiting for a place is no part of
            it: a queue is no failure of the service.
        backoff_s: seconds before the second attempt, doubled every time, up to as much again added at random.
        retry_on: failures after which to try again.
        give_up_on: failures of the service that another attempt would not change.
        places: limits the attempts in flight; none is held during the backoff. `None`: no limit.
        uncounted: those of `retry_on` that are no attempts, for the service did not take the call (it is
            busy, or about to start again): only the deadline ends them.
        longest_wait_s: seconds of backoff at most.

    Raises:
        InfrastructureError: the attempts or the deadline are spent, or a failure of `give_up_on`.
    """
    deadline = asyncio.timeout(deadline_s)
    backoff = wait_exponential_jitter(initial=backoff_s, max=longest_wait_s, jitter=backoff_s)
    counted, last = 0, None

    def wait(state: RetryCallState) -> float:
        asked = _asked_wait(state)
        # those that were told the same do not come back together
        told = asked + random.uniform(0, backoff_s) if asked else 0.0
        return max(backoff(state), told, _LEAST_WAIT_S if isinstance(_failed(state), uncounted) else 0.0)

    def hopeless(state: RetryCallState) -> bool:
        nonlocal counted, last
        last = _failed(state)
        counted += not isinstance(last, uncounted)
        left = (deadline.when() or math.inf) - asyncio.get_running_loop().time()
        # a deadline that has just passed ends this at the next wait, and says so
        return counted >= attempts or _asked_wait(state) > max(left, 0.0)

    retrying = AsyncRetrying(
        stop=hopeless,
        wait=wait,
        retry=retry_if_exception_type(retry_on),
        reraise=True,
    )

    async def attempt() -> T:
        if places is None:
            return await call()
        async with places.taken(deadline):
            return await call()

    try:
        async with deadline:
            return await retrying(attempt)
    except (*retry_on, *give_up_on, TimeoutError) as error:
        if deadline.expired():
            told = f"; before: {describe(last)}" if isinstance(last, uncounted) else ""
            cause = last if isinstance(last, uncounted) else error
            raise InfrastructureError(f"{what}: no result within {deadline_s:g} s{told}") from cause
        made = retrying.statistics["attempt_number"]
        told = f"{what}: failed after {made} attempts, last: {describe(error)}"
        asked = getattr(error, "retry_after_s", None)
        if asked and counted < attempts:
            told += f"; it asks to wait {asked:g} s, beyond the deadline of {deadline_s:g} s"
        raise InfrastructureError(told) from error


async def run_jobs(
    jobs: Iterable[J],
    work: Callable[[J], Awaitable[None]],
    *,
    at_once: int,
    done: Callable[[], None] | None = None,
) -> None:
    """Do all jobs, in their order, some at a time.

    When one fails no other is begun, and those at work come to their end: what they ask for is paid for
    already. Then the first failure is raised.

    Args:
        jobs: taken one by one, as they are begun.
        work: does one.
        at_once: jobs at work at most.
        done: called after each.
    """
    waiting, failures = iter(jobs), []

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


def describe(error: BaseException) -> str:
    """Return one line about an error: its type and the first line of its message."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {visible(lines[0][:300])}" if lines else type(error).__name__


def _asked_wait(state: RetryCallState) -> float:
    """Return the seconds that the failure of the last attempt asks to wait; 0 when it asks for none."""
    return min(getattr(_failed(state), "retry_after_s", None) or 0.0, LONGEST_ASKED_WAIT_S)


def _failed(state: RetryCallState) -> BaseException | None:
    return state.outcome.exception() if state.outcome else None
