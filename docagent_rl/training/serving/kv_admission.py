"""Admission of trajectories to a rollout server by the tokens that its KV cache can hold.

A server keeps the prefix of a trajectory between two turns, so that a turn only prefills what is
new. If more trajectories play than fit, prefixes are evicted while a tool runs, and prefilled
again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

FILL = 0.9
"""The share of the cache that is given out: blocks are not filled to the last token."""
PRIOR = 4
"""The number of trajectories of the greatest length that the expected growth begins with."""
MEMORY = 0.98
"""The weight that the sizes of ended trajectories keep when another one ends."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A trajectory as a server knows it.

    Args:
        trajectory: its name, another one for each attempt at it.
        group: the name of its group, whose trajectories begin with the same prompt.
        prompt: the length of that prompt in tokens, which the cache keeps once.
    """

    trajectory: str
    group: str
    prompt: int


@dataclass(slots=True)
class _Group:
    prompt: int
    playing: int = 0


@dataclass(slots=True)
class _Playing:
    group: str
    grown: int
    """Tokens beyond the group's prompt."""


@dataclass(slots=True, eq=False)
class _Waiting:
    ticket: Ticket
    grown: int
    admitted: asyncio.Future[None]


class KVAdmission:
    """A queue that admits trajectories as long as they are expected to fit into the cache.

    A trajectory counts with its own tokens or with the tokens that trajectories have had in the
    end, whichever is more, and the prompt of a group counts once. At first, when none has ended,
    that is the longest possible trajectory.

    Later turns of a trajectory that plays never wait. Trajectories that have begun at another
    server come first, then those of a group that plays, then the others in the order in which they
    arrived. One trajectory is always admitted, whatever its size. All calls have to come from one
    event loop.

    Args:
        capacity: the number of tokens that the KV cache can hold.
        longest: the number of tokens of the longest possible trajectory, prompt included.
    """

    def __init__(self, capacity: int, longest: int) -> None:
        self._room = FILL * capacity
        self._weight = float(PRIOR)
        self._grown = PRIOR * float(longest)
        self._groups: dict[str, _Group] = {}
        self._playing: dict[str, _Playing] = {}
        self._waiting: list[_Waiting] = []

    @property
    def playing(self) -> int:
        """The number of trajectories that have been admitted and have not left."""
        return len(self._playing)

    @property
    def waiting(self) -> int:
        """The number of trajectories that have not been admitted yet."""
        return len(self._waiting)

    @property
    def expected_growth(self) -> float:
        """The number of tokens that a trajectory is expected to add to its group's prompt."""
        return self._grown / self._weight

    async def enter(self, ticket: Ticket, tokens: int) -> None:
        """Wait until a trajectory may play, if it does not play yet.

        Args:
            ticket: the trajectory.
            tokens: the number of tokens that it has so far, prompt included.

        Raises:
            CancelledError: the trajectory has left.
        """
        if ticket.trajectory in self._playing:
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = _Waiting(ticket, max(0, tokens - ticket.prompt), admitted)
        self._waiting.append(entry)
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif not admitted.cancelled():
                # the request was cancelled in the moment of its admission
                self.leave(ticket.trajectory)
            raise

    def record(self, ticket: Ticket, tokens: int) -> None:
        """Record the number of tokens, prompt included, that a trajectory that plays has so far."""
        entry = self._playing.get(ticket.trajectory)
        if entry is not None:
            entry.grown = max(entry.grown, tokens - ticket.prompt)

    def leave(self, trajectory: str) -> None:
        """Give the room of a trajectory that has ended, or moved, to those that wait."""
        for entry in [each for each in self._waiting if each.ticket.trajectory == trajectory]:
            # nobody waits for this request any more
            self._waiting.remove(entry)
            entry.admitted.cancel()
        ended = self._playing.pop(trajectory, None)
        if ended is None:
            return
        if ended.grown:
            self._weight = MEMORY * self._weight + 1
            self._grown = MEMORY * self._grown + ended.grown
        group = self._groups[ended.group]
        group.playing -= 1
        if not group.playing:
            del self._groups[ended.group]
        self._admit()

    def dismiss(self) -> None:
        """Let all trajectories that wait go on, and forget those that play: the server closes."""
        waiting = self._waiting
        self._waiting = []
        self._playing.clear()
        self._groups.clear()
        for entry in waiting:
            if not entry.admitted.done():
                entry.admitted.set_result(None)

    def _admit(self) -> None:
        while self._waiting:
            entry = min(self._waiting, key=self._rank)
            ticket = entry.ticket
            known = ticket.trajectory in self._playing
            if self._playing and not known and self._used() + self._needed(entry) > self._room:
                return
            self._waiting.remove(entry)
            if entry.admitted.done():
                continue  # it was cancelled
            if not known:
                group = self._groups.setdefault(ticket.group, _Group(ticket.prompt))
                group.playing += 1
                self._playing[ticket.trajectory] = _Playing(ticket.group, entry.grown)
            entry.admitted.set_result(None)

    def _rank(self, entry: _Waiting) -> tuple[bool, bool]:
        """Return what comes before the order of arrival, which `min` keeps."""
        return not entry.grown, entry.ticket.group not in self._groups

    def _needed(self, entry: _Waiting) -> float:
        prompt = 0 if entry.ticket.group in self._groups else entry.ticket.prompt
        return prompt + max(entry.grown, self.expected_growth)

    def _used(self) -> float:
        prompts = sum(group.prompt for group in self._groups.values())
        expected = self.expected_growth
        return prompts + sum(max(each.grown, expected) for each in self._playing.values())
