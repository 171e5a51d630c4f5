"""What a validation counts: every session that was asked for, played or not.

verl leaves `None` out of its means and sessions that ended in an exception out of its batch. Either way a
score would rise by what cannot be played, so here such a session is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.training.trainer.summary import PREFIX

REWARD = "reward"
PLAYED_REWARD = "reward_played"
"""The reward over the sessions that were played; a run is not judged by it."""
PLAYED = "played"
"""Whether a session was played."""


@dataclass(slots=True)
class ValidationTable:
    """The sessions of a validation, one row each, as verl's `process_validation_metrics` takes them.

    Args:
        sources: data source of each session.
        uids: prompt group of each session.
        columns: values by name; `None` is left out of the means.
        missing: sessions that were asked for and left no row.
    """

    sources: list[str]
    uids: list[str]
    columns: dict[str, list[Any]] = field(default_factory=dict)
    missing: int = 0


def validation_table(
    sources: Sequence[str],
    uids: Sequence[str],
    columns: Mapping[str, Sequence[Any]],
    sessions: Sequence[SessionDigest | None],
    expected: Mapping[tuple[str, str], int] | None,
) -> ValidationTable:
    """Every session that was asked for, with the numbers it counts with.

    Args:
        sources: data source of each session that left a row.
        uids: its prompt group.
        columns: verl's values by name, `reward` among them.
        sessions: what is known of it; `None` for one of another agent loop, whose values stay as they are.
        expected: sessions by data source and prompt group.

    Returns:
        A session that was not played has the reward 0, or what it was charged until then where that is less,
        and so has every reward term. Of its other numbers it has those that the environment gave it,
        which are none unless the session reached its end (`MaskReason.EMPTY`).
    """
    table = ValidationTable(list(map(str, sources)), list(map(str, uids)))
    table.columns = {name: list(values) for name, values in columns.items()}
    rewards = zip(columns[REWARD], sessions, strict=True)
    table.columns[REWARD] = [_reward(reward, session) for reward, session in rewards]
    table.columns[PLAYED] = [float(session is None or not session.masked) for session in sessions]
    names = {name: None for session in sessions if session is not None for name in session.metrics}
    for name in names:
        table.columns[name] = [_number(name, session) for session in sessions]
    played = zip(table.columns[REWARD], table.columns[PLAYED], strict=True)
    table.columns[PLAYED_REWARD] = [reward if was else None for reward, was in played]
    _add_missing(table, expected or {})
    return table


def mask_report(sessions: Sequence[SessionDigest | None], missing: int) -> dict[str, float]:
    """How many sessions of a validation were not played, and why.

    Args:
        sessions: those that left a row.
        missing: number of those that did not.
    """
    reasons = Counter(session.end for session in sessions if session is not None and session.masked)
    reasons[MaskReason.MISSING.value] = missing
    counts = {f"{PREFIX}/masked/{reason.value}": float(reasons[reason.value]) for reason in MaskReason}
    return {**counts, f"{PREFIX}/masked_trajectories": float(sum(reasons.values()))}


def _reward(reward: float, session: SessionDigest | None) -> float:
    if session is None:
        return reward
    if session.masked:
        return min(0.0, sum(turn.reward for turn in session.turns))
    # over all rows: verl takes the last one for the session
    return session.reward


def _number(name: str, session: SessionDigest | None) -> float | None:
    if session is None:
        return None
    value = session.metrics.get(name)
    if session.masked and _is_term(name):
        return min(0.0, value or 0.0)
    return value


def _is_term(name: str) -> bool:
    return name.startswith(f"{REWARD}/")


def _add_missing(table: ValidationTable, expected: Mapping[tuple[str, str], int]) -> None:
    found = Counter(zip(table.sources, table.uids, strict=True))
    wrong = {REWARD: 0.0, PLAYED: 0.0}
    for (source, uid), number in expected.items():
        for _ in range(number - found[source, uid]):
            table.missing += 1
            table.sources.append(source)
            table.uids.append(uid)
            for name, values in table.columns.items():
                values.append(0.0 if _is_term(name) else wrong.get(name))
