"""Calling services that may fail: attempts, backoff and one deadline over all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from docagent_rl.errors import InfrastructureError

T = TypeVar("T")
_LONGEST_WAIT_S = 20.0


async def call_service(
    call: Callable[[], Awaitable[T]],
    *,
    what: str,
    attempts: int,
    deadline_s: float,
    backoff_s: float,
    retry_on: tuple[type[Exception], ...],
    give_up_on: tuple[type[Exception], ...] = (),
) -> T:
    """Await `call()` until it succeeds.

    Args:
        call: makes a fresh awaitable for every attempt.
        what: name of the service for the error message.
        attempts: number of calls at most.
        deadline_s: seconds for everything, waiting between attempts included.
        backoff_s: seconds before the second attempt, doubled every time, up to as much again added at random.
        retry_on: failures after which to try again.
        give_up_on: failures of the service that another attempt would not change.

    Raises:
        InfrastructureError: the attempts or the deadline are spent, or a failure of `give_up_on`.
    """
    retrying = AsyncRetrying(
        stop=stop_after_attempt(attempts),
        wait=wait_exponential_jitter(initial=backoff_s, max=_LONGEST_WAIT_S, jitter=backoff_s),
        retry=retry_if_exception_type(retry_on),
        reraise=True,
    )

    async def attempt() -> T:
        return await call()

    deadline = asyncio.timeout(deadline_s)
    try:
        async with deadline:
            return await retrying(attempt)
    except (*retry_on, *give_up_on, TimeoutError) as error:
        if deadline.expired():
            raise InfrastructureError(f"{what}: no result within {deadline_s:g} s") from error
        made = retrying.statistics["attempt_number"]
        raise InfrastructureError(f"{what}: failed after {made} attempts, last: {describe(error)}") from error


def describe(error: BaseException) -> str:
    """One line about an error: its type and the first line of its message."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
