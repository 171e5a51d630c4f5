"""Answers of a service by question: those kept in memory, and those on their way."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import cachetools

T = TypeVar("T")


class Answers(Generic[T]):
    """Answers of one service, for several event loops.

    Who asks what is being asked waits for the same answer. Failures are shared and not kept.

    Args:
        capacity: answers that are kept; 0 keeps none, `None` shares none either.
    """

    def __init__(self, capacity: int | None) -> None:
        self._capacity = capacity
        self._known: cachetools.LRUCache[Hashable, T] = cachetools.LRUCache(capacity or 1)
        self._lock = threading.Lock()
        self._coming: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, dict[Hashable, asyncio.Task[T]]
        ] = weakref.WeakKeyDictionary()

    async def get(self, question: Hashable, ask: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the answer, and whether somebody else had asked for it."""
        if self._capacity is None:
            return await ask(), False
        with self._lock:
            if question in self._known:
                return self._known[question], True
        coming = self._coming.setdefault(asyncio.get_running_loop(), {})
        task, shared = coming.get(question), True
        if task is None:
            task, shared = asyncio.ensure_future(_awaited(ask)), False
            coming[question] = task
            task.add_done_callback(lambda done: self._settle(coming, question, done))
        # who gives up does not take the answer from those who wait with him
        return await asyncio.shield(task), shared

    def _settle(
        self, coming: dict[Hashable, asyncio.Task[T]], question: Hashable, task: asyncio.Task[T]
    ) -> None:
        coming.pop(question, None)
        if self._capacity and not task.cancelled() and task.exception() is None:
            with self._lock:
                self._known[question] = task.result()


async def _awaited(ask: Callable[[], Awaitable[T]]) -> T:
    return await ask()
