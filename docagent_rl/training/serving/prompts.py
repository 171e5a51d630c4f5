"""Prompts of a trajectory as servers receive them: without the tokens that a server has already.

A turn's prompt is nearly always the prompt of the turn before, with its reply and an observation.
A client names the part that its server has, by the trajectory, a length and a digest, and sends the
rest, in which a run of placeholders counts as one token. A server that does not have that part, as
it was restarted or has dropped it, says so and is sent everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from cachetools import LRUCache

ROOM = 128 << 20
"""Bytes of tokens that a server keeps: 3,200 prompts of 10,240 tokens."""
LONG = 8
"""The number of equal tokens in a row from which they are sent as one."""
UNKNOWN_PREFIX = "docagent_unknown_prefix"
"""Field of a server's reply: it does not have what the prompt begins with, and sampled nothing."""


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """A prompt in a request.

    Args:
        name: the trajectory, under which the server keeps the prompt and its reply.
        kept: how many tokens of what it has under that name the prompt begins with.
        digest: a digest of these tokens.
        ids: the tokens after them as int32, each long run once.
        runs: for each long run its place in `ids` and its length.
    """

    name: str
    kept: int
    digest: bytes
    ids: bytes
    runs: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, name: str, ids: np.ndarray, kept: int) -> SentPrompt:
        """Return the prompt `ids`, (t,) int32, for a server that has its first `kept` tokens."""
        rest = ids[kept:]
        starts = np.flatnonzero(np.diff(rest, prepend=-1))
        lengths = np.diff(starts, append=len(rest))
        long = lengths >= LONG
        counts = np.where(long, 1, lengths)
        places = np.cumsum(counts) - counts
        runs = zip(places[long].tolist(), lengths[long].tolist(), strict=True)
        sent = np.repeat(rest[starts], counts)
        return cls(name, kept, _digest(ids[:kept]), sent.tobytes(), tuple(runs))

    @property
    def rest(self) -> np.ndarray:
        """The tokens after the first `kept` ones, int32."""
        ids = np.frombuffer(self.ids, np.int32)
        counts = np.ones(len(ids), np.int64)
        for place, length in self.runs:
            counts[place] = length
        return np.repeat(ids, counts)


class PromptSender:
    """The prompts of one trajectory, of which the last server has the last one with its reply.

    Args:
        name: the trajectory's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._server = ""
        self._last: list[int] = []
        self._known = token_array(())

    def shorten(self, ids: list[int], server: str) -> SentPrompt:
        """Return a prompt without the tokens that a server has."""
        whole = self._array(ids)
        kept = _common(whole, self._known) if server == self._server else 0
        return SentPrompt.of(self._name, whole, kept)

    def whole(self, ids: list[int]) -> SentPrompt:
        """Return a prompt with all its tokens."""
        return SentPrompt.of(self._name, self._array(ids), 0)

    def record(self, ids: list[int], reply: Sequence[int], server: str) -> None:
        """Record that a server has answered a prompt."""
        last = [*ids, *reply]
        self._known = self._array(last)
        self._last = last
        self._server = server

    def _array(self, ids: list[int]) -> np.ndarray:
        # to convert ten thousand tokens takes .4 ms of the event loop, to compare them .05
        known = len(self._last)
        if ids[:known] == self._last:
            return np.concatenate([self._known, token_array(ids[known:])])
        return token_array(ids)


class PromptStore:
    """The last prompts of trajectories at a server; the least recently used are dropped first.

    Args:
        room: the bytes of all tokens together.
    """

    def __init__(self, room: int = ROOM) -> None:
        self._prompts: LRUCache[str, np.ndarray] = LRUCache(room, getsizeof=lambda ids: ids.nbytes)

    def find(self, sent: SentPrompt) -> np.ndarray | None:
        """Return all tokens of a prompt as int32, or `None` if its first ones are not here."""
        if not sent.kept:
            return sent.rest
        known = self._prompts.get(sent.name)
        if known is None or _digest(known[: sent.kept]) != sent.digest:
            return None
        return np.concatenate([known[: sent.kept], sent.rest])

    def keep(self, name: str, ids: np.ndarray) -> None:
        """Keep a prompt in place of the trajectory's last one."""
        if ids.nbytes <= self._prompts.maxsize:
            self._prompts[name] = ids

    def add_reply(self, name: str, ids: np.ndarray, reply: Sequence[int]) -> None:
        """Keep a prompt with its reply, unless the trajectory has left in the meantime."""
        if name in self._prompts:
            self.keep(name, np.concatenate([ids, token_array(reply)]))

    def drop(self, name: str) -> None:
        """Drop the prompt of a trajectory that has ended, or moved."""
        self._prompts.pop(name, None)


def token_array(ids: Sequence[int]) -> np.ndarray:
    """Return tokens as int32.

    Raises:
        OverflowError: one of them does not fit.
    """
    return np.array(ids, np.int32)


def _common(ids: np.ndarray, known: np.ndarray) -> int:
    """Return the number of tokens with which both begin."""
    length = min(len(ids), len(known))
    differing = np.flatnonzero(ids[:length] != known[:length])
    return int(differing[0]) if len(differing) else length


def _digest(ids: np.ndarray) -> bytes:
    return blake2b(ids.tobytes(), digest_size=16).digest()
