"""Many small jobs, some at a time, that end in good order when one of them fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


async def work_through(
    jobs: Iterable[T],
    work: Callable[[T], Awaitable[None]],
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

    async def worker(mine: Iterator[T]) -> None:
        for job in mine:
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
