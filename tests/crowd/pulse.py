"""Measure how long an event loop is blocked."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass

_INTERVAL_S = 0.01


@dataclass
class Pulse:
    """A task that wakes every 10 ms.

    Attributes:
        worst_cpu_s: the longest that the event loop's thread itself worked between two wakings, in
            seconds of its CPU: a busy machine does not change it.
    """

    worst_cpu_s: float = 0.0

    async def __aenter__(self) -> Pulse:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run())
        await asyncio.sleep(2 * _INTERVAL_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(2 * _INTERVAL_S)  # a last waking, behind whatever came just now
        self._task.cancel()

    def answers(self, patience_s: float) -> bool:
        """Return whether the event loop does other work during this call, however late."""
        answered = threading.Event()
        self._loop.call_soon_threadsafe(answered.set)
        return answered.wait(patience_s)

    async def _run(self) -> None:
        worked = time.thread_time()
        while True:
            await asyncio.sleep(_INTERVAL_S)
            cpu = time.thread_time()
            self.worst_cpu_s, worked = max(self.worst_cpu_s, cpu - worked), cpu
