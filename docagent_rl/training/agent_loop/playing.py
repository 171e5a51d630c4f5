"""The trajectories that an agent worker plays, which can be abandoned all at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

AGAIN_S = 0.05
"""Seconds between two attempts to end trajectories: those of a prompt begin one after the other."""
CANCEL_AGAIN_S = 5.0
"""Seconds that a trajectory gets to clean up before it is cancelled again: a library that it uses
may have swallowed the cancellation.
"""

replays: ContextVar[int] = ContextVar("docagent_replays", default=0)
"""How often the rollout of the trajectory has been played again from its beginning."""


@dataclass(slots=True)
class Playing:
    """The tasks of a worker's trajectories from their beginning until their rows are stored.

    Storing is not interrupted: the queue must not get half a trajectory.
    """

    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)
    _abandoning: bool = False

    @asynccontextmanager
    async def trajectory(self) -> AsyncGenerator[None, None]:
        """Play a trajectory in the current task; one that is abandoned ends without an error."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if not self._abandoning:
                raise
        finally:
            self._tasks.discard(task)

    def keep(self) -> None:
        """Do not interrupt the current task any more, because it stores its rows."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.discard(task)

    async def abandon(self, prompts: Collection[asyncio.Task[Any]]) -> None:
        """End all trajectories, and wait until the tasks of their prompts have ended."""
        self._abandoning = True
        due: dict[asyncio.Task[Any], float] = {}
        try:
            while prompts:
                now = time.monotonic()
                for task in [*self._tasks]:
                    if now >= due.get(task, now):
                        task.cancel()
                        due[task] = now + CANCEL_AGAIN_S
                await asyncio.wait(list(prompts), timeout=AGAIN_S)
        finally:
            self._abandoning = False
