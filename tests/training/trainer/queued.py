"""What verl's queue holds of sessions, as our agent loop puts it there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from docagent_rl.config import TextConfig
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.training.agent_loop.output import (
    SESSION_DIGEST,
    SESSION_LINE,
    SessionOutcome,
    SessionRecord,
)


def rows_of(session: Trajectory, number: int = 1) -> dict[str, dict[str, Any]]:
    """The fields of a session's rows, by key."""
    record = SessionRecord.of(session, TextConfig(), validation=False)
    extra = SessionOutcome.of(session).fields()
    first = {"extra_fields": extra, SESSION_DIGEST: record.digest, SESSION_LINE: record.line.text}
    others = {"extra_fields": extra, SESSION_DIGEST: "", SESSION_LINE: b""}
    name = f"{session.uid}_{session.session}"
    return {f"{name}_{row}": others if row else first for row in range(number)}


def column(rows: dict[str, dict[str, Any]], keys: list[str], select_fields: list[str]) -> dict[str, list]:
    """What `kv_batch_get` returns."""
    return {name: [SimpleNamespace(data=rows[key][name]) for key in keys] for name in select_fields}
