"""What is known of the sessions that the rows of a batch belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import transfer_queue as tq
from transfer_queue import KVBatchMeta

from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.line import SessionLine
from docagent_rl.training.agent_loop.output import SESSION_DIGEST, SESSION_LINE, SessionOutcome
from docagent_rl.training.tensors import partition

_LINES_AT_ONCE = 64


class SessionReader:
    """Reads what the first row of a session says of it, once a step.

    The sampling of a step, its advantages and its archive share one object a session.
    """

    def __init__(self) -> None:
        self._known: dict[str, SessionDigest | None] = {}

    def fetch(self, batch: KVBatchMeta) -> list[tuple[str, SessionDigest]]:
        """The session of each row, by key; rows of other agent loops, and rows that verl fills up with, have
        none.
        """
        sessions = {key: session_of(key) for key in batch.keys}
        new = [session for session in dict.fromkeys(sessions.values()) if session not in self._known]
        if new:
            self._known.update(_digests(new, partition(batch)))
        return [(key, found) for key, name in sessions.items() if (found := self._known[name]) is not None]

    def forget(self) -> None:
        """Let go of the sessions of a step that has ended."""
        self._known.clear()


def session_of(key: str) -> str:
    """The part of verl's `{uid}_{session}_{index}` that names the session."""
    return key.rpartition("_")[0]


def fetch_lines(sessions: Iterable[SessionDigest], partition_id: str) -> dict[str, SessionLine]:
    """The lines of sessions, by `{uid}_{session}`."""
    by_name = {f"{each.uid}_{each.session}": each for each in sessions}
    names, lines = list(by_name), {}
    for start in range(0, len(names), _LINES_AT_ONCE):
        some = names[start : start + _LINES_AT_ONCE]
        for name, text in zip(some, _column(some, partition_id, SESSION_LINE), strict=True):
            lines[name] = SessionLine(text, by_name[name].holes)
    return lines


def read_sessions(digests: Sequence[str | None], number: int) -> list[SessionDigest | None]:
    """Sessions of a validation.

    Args:
        digests: what verl gathered; nothing where no session has one, `None` for sessions without.
        number: of sessions.
    """
    if not digests:
        return [None] * number
    return [None if text is None else SessionDigest.from_json(text) for text in digests]


def _digests(names: Sequence[str], partition_id: str) -> Mapping[str, SessionDigest | None]:
    loops = zip(names, _column(names, partition_id, "extra_fields"), strict=True)
    # rows of other agent loops lack our fields
    ours = [name for name, fields in loops if SessionOutcome.read(fields) is not None]
    found: dict[str, SessionDigest | None] = dict.fromkeys(names)
    if ours:
        for name, text in zip(ours, _column(ours, partition_id, SESSION_DIGEST), strict=True):
            digest = SessionDigest.from_json(text)
            # verl's rows for divisibility are copies of one of ours, under another name
            found[name] = digest if f"{digest.uid}_{digest.session}" == name else None
    return found


def _column(names: Sequence[str], partition_id: str, field: str) -> list[Any]:
    """A field of the first row of each session."""
    keys = [f"{name}_0" for name in names]
    data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=[field])
    return [getattr(value, "data", value) for value in list(data[field])]
