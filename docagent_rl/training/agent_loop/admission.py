"""How many trajectories an agent worker plays at a time: as many as its memory holds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

FIRST = 32
"""Trajectories at a time before the first has ended, so that nobody knows what one takes."""


class Held:
    """What a trajectory took, told before it leaves."""

    nbytes: int = 0


class Admission:
    """Lets trajectories in, in the order in which they came, while their memory fits a budget.

    A trajectory counts for the most that one has taken so far. One is always let in, whatever it takes.

    Args:
        budget: bytes of all trajectories that play.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._largest = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.playing = 0

    @property
    def waiting(self) -> int:
        """Trajectories that are not let in yet."""
        return len(self._waiting)

    @property
    def places(self) -> int:
        """Trajectories that may play at a time."""
        return max(1, self._budget // self._largest) if self._largest else FIRST

    @asynccontextmanager
    async def trajectory(self) -> AsyncGenerator[Held, None]:
        """A place for as long as a trajectory plays."""
        await self._enter()
        held = Held()
        try:
            yield held
        finally:
            self.playing -= 1
            self._largest = max(self._largest, held.nbytes)
            self._admit()

    async def _enter(self) -> None:
        if not self._waiting and self.playing < self.places:
            self.playing += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had its place already
                self.playing -= 1
                self._admit()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _admit(self) -> None:
        while self._waiting and self.playing < self.places:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self.playing += 1
                turn.set_result(None)
