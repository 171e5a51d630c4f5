"""Admission of trajectories to a rollout server by the tokens that its KV cache can hold.

A server keeps the prefix of a trajectory between two turns, so that a turn only prefills what is
new. If more trajectories play than fit, prefixes are evicted while a tool runs, and prefilled
again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

FILL = 0.9
"""The share of the cache that is given out: blocks are not filled to the last token."""
PRIOR = 4
"""The number of trajectories of the greatest length that the expected growth begins with."""
MEMORY = 0.98
"""The weight that the sizes of ended trajectories keep when another one ends."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A trajectory as a server knows it.

    Trajectories of one `group` begin with the same prompt, which the cache keeps once.
    """

    trajectory: str
    group: str


@dataclass(slots=True)
class _Group:
    prompt: int
    playing: int = 0


@dataclass(slots=True)
class _Playing:
    group: str
    grown: int = 0
    """Tokens beyond the group's prompt."""


@dataclass(slots=True)
class _Waiting:
    prompt: int
    trajectories: deque[tuple[Ticket, asyncio.Future[None]]] = field(default_factory=deque)


class KVAdmission:
    """A queue that admits trajectories as long as they are expected to fit into the cache.

    A trajectory counts with its own tokens or with the tokens that trajectories have had in the
    end, whichever is more, and the prompt of a group counts once. At first, when none has ended,
    that is the longest possible trajectory.

    Later turns of a trajectory that plays never wait. Trajectories of a group that plays come
    first, then groups in the order in which they arrived. One trajectory is always admitted,
    whatever its size.

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
        self._waiting: dict[str, _Waiting] = {}

    @property
    def playing(self) -> int:
        """The number of trajectories that have been admitted and have not left."""
        return len(self._playing)

    @property
    def waiting(self) -> int:
        """The number of trajectories that have not been admitted yet."""
        return sum(len(each.trajectories) for each in self._waiting.values())

    @property
    def expected_growth(self) -> float:
        """The number of tokens that a trajectory is expected to add to its group's prompt."""
        return self._grown / self._weight

    async def enter(self, ticket: Ticket, prompt: int) -> None:
        """Wait until a trajectory may play, if it does not play yet.

        Args:
            ticket: the trajectory.
            prompt: the length in tokens of its first prompt.
        """
        if ticket.trajectory in self._playing:
            return
        group = self._waiting.setdefault(ticket.group, _Waiting(prompt))
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = ticket, admitted
        group.trajectories.append(entry)
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                self.leave(ticket.trajectory)
            else:
                self._forget(entry)
            raise

    def record(self, ticket: Ticket, tokens: int) -> None:
        """Record the number of tokens, prompt included, that a trajectory that plays has so far."""
        entry = self._playing.get(ticket.trajectory)
        if entry is not None:
            grown = tokens - self._groups[entry.group].prompt
            entry.grown = max(entry.grown, grown)

    def leave(self, trajectory: str) -> None:
        """Give the room of a trajectory that has ended to those that wait."""
        entry = self._playing.pop(trajectory, None)
        if entry is None:
            return
        if entry.grown:
            self._weight = MEMORY * self._weight + 1
            self._grown = MEMORY * self._grown + entry.grown
        group = self._groups[entry.group]
        group.playing -= 1
        if not group.playing:
            del self._groups[entry.group]
        self._admit()

    def dismiss(self) -> None:
        """Let all trajectories that wait go on, and forget those that play: the server closes."""
        waiting = [entry for each in self._waiting.values() for entry in each.trajectories]
        self._waiting.clear()
        self._playing.clear()
        self._groups.clear()
        for _, admitted in waiting:
            if not admitted.done():
                admitted.set_result(None)

    def _admit(self) -> None:
        while (name := self._next_group()) is not None:
            group = self._waiting[name]
            if self._playing and self._used() + self._needed(name) > self._room:
                return
            ticket, admitted = group.trajectories.popleft()
            if not group.trajectories:
                del self._waiting[name]
            if ticket.trajectory not in self._playing:
                self._groups.setdefault(name, _Group(group.prompt)).playing += 1
                self._playing[ticket.trajectory] = _Playing(name)
            admitted.set_result(None)

    def _next_group(self) -> str | None:
        """Return the group to admit from: one that plays already, else the first to arrive."""
        begun = (name for name in self._waiting if name in self._groups)
        return next(begun, next(iter(self._waiting), None))

    def _needed(self, name: str) -> float:
        prompt = 0 if name in self._groups else self._waiting[name].prompt
        return prompt + self.expected_growth

    def _used(self) -> float:
        prompts = sum(group.prompt for group in self._groups.values())
        expected = self.expected_growth
        return prompts + sum(max(each.grown, expected) for each in self._playing.values())

    def _forget(self, entry: tuple[Ticket, asyncio.Future[None]]) -> None:
        name = entry[0].group
        group = self._waiting.get(name)
        if group is not None and entry in group.trajectories:
            group.trajectories.remove(entry)
            if not group.trajectories:
                del self._waiting[name]
