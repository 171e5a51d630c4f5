"""Answers of a service by question: known ones are kept, and one that is on its way is waited for."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import cachetools

T = TypeVar("T")


class Answers(Generic[T]):
    """Of one service; failures are not kept, but those who wait for the same answer share them.

    Args:
        capacity: answers that are kept; 0: each question is asked.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._known: cachetools.LRUCache[Hashable, T] = cachetools.LRUCache(max(1, capacity))
        self._coming: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[Hashable, asyncio.Task[T]]
        ] = weakref.WeakKeyDictionary()

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The answer, and whether somebody else had asked for it."""
        if not self._capacity:
            return await ask(), False
        if question in self._known:
            return self._known[question], True
        coming = self._coming.setdefault(asyncio.get_running_loop(), {})
        task, asked = coming.get(question), True
        if task is None:
            task, asked = asyncio.ensure_future(_awaited(ask)), False
            coming[question] = task
            task.add_done_callback(lambda done: self._settle(coming, question, done))
        # who gives up does not take the answer from those who wait with him
        return await asyncio.shield(task), asked

    def _settle(
        self, coming: dict[Hashable, asyncio.Task[T]], question: Hashable, task: asyncio.Task[T]
    ) -> None:
        coming.pop(question, None)
        if not task.cancelled() and task.exception() is None:
            self._known[question] = task.result()


async def _awaited(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()
