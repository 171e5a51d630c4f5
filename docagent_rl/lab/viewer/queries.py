"""Questions to the index of a run: lists, counts, groups."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.filters import FIELDS, Pair, condition

LIST_OPTIONS = frozenset({"sort", "order", "offset", "limit"})
MOST_ROWS = 1_000
_SORTS = {
    "reward": "reward",
    "step": "step",
    "turns": "turns",
    "invalid": "invalid",
    "tokens": "tokens",
    "images": "images",
    "question": "question",
    "advantage": "advantage",
    "seconds": "seconds",
    "session": "session",
    "system": "system",
    "status": "status",
    "stage": "stage",
    "drift": "drift",
}
_ROW = (
    "id, step, split, system, dataset, question_id, question, doc_id, uid, session, status, "
    '"end", mask, reward, terms, turns, invalid, tokens, images, answer, gold, evidence_kind, stage, '
    'seconds, drift, advantage, "right", guessed, truncated'
)
_RANGES = ("reward", "turns", "invalid", "tokens", "images", "step", "seconds")


@dataclass(frozen=True, slots=True)
class Listing:
    """Sessions of a link, some of them.

    Args:
        total: how many there are.
        rows: the asked ones.
    """

    total: int
    rows: list[dict[str, Any]]


def sessions(base: sqlite3.Connection, pairs: Sequence[Pair]) -> Listing:
    """A piece of the list that a link means.

    Raises:
        UserError: a parameter is unknown, or its value.
    """
    options = {name: value for name, value in pairs if name in LIST_OPTIONS}
    where = condition(pairs, ignored=LIST_OPTIONS)
    offset = _count(options.get("offset", "0"), "offset")
    limit = min(_count(options.get("limit", "100"), "limit"), MOST_ROWS)
    order, values = _order(options.get("sort", "step"), options.get("order", "asc"))
    (total,) = base.execute(f"SELECT count(*) FROM sessions {where.where}", where.values).fetchone()
    found = base.execute(
        f"SELECT {_ROW} FROM sessions {where.where} ORDER BY {order}, split, step, uid, session "
        "LIMIT ? OFFSET ?",
        (*where.values, *values, limit, offset),
    )
    return Listing(total, [row_of(row) for row in found])


def row_of(row: sqlite3.Row) -> dict[str, Any]:
    """A session of the index as the page takes it."""
    found = dict(row)
    found["terms"], found["gold"] = json.loads(found["terms"]), json.loads(found["gold"])
    found["stage"] = found["stage"] or None
    for name in ("right", "guessed", "truncated"):
        found[name] = None if found[name] is None else bool(found[name])
    return found


def facets(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """How many sessions each value of each field has, under the other fields' filters, and ranges."""
    kept = [pair for pair in pairs if pair[0] not in LIST_OPTIONS]
    found: dict[str, Any] = {}
    for name, column in FIELDS.items():
        where = condition(kept, without=name)
        counted = base.execute(
            f"SELECT {column}, count(*) FROM sessions {where.where} GROUP BY 1 ORDER BY 1",
            where.values,
        )
        found[name] = [{"value": str(value), "count": count} for value, count in counted if value != ""]
    found["ranges"] = _ranges(base, kept)
    return found


def _ranges(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, list[float]]:
    where = condition(pairs)
    columns = ", ".join(f"min({name}), max({name})" for name in _RANGES)
    ends = base.execute(f"SELECT {columns} FROM sessions {where.where}", where.values).fetchone()
    found = {name: [ends[2 * n], ends[2 * n + 1]] for n, name in enumerate(_RANGES)}
    terms = base.execute(
        "SELECT name, min(value), max(value) FROM terms "
        f"WHERE session IN (SELECT id FROM sessions {where.where}) GROUP BY name",
        where.values,
    )
    found |= {f"term:{name}": [low, high] for name, low, high in terms}
    return {name: value for name, value in found.items() if value[0] is not None}


def place_of(base: sqlite3.Connection, session: int) -> tuple[str, int, int]:
    """File, offset and length of a session's line.

    Raises:
        UserError: there is no such session.
    """
    row = base.execute("SELECT file, begin, length FROM sessions WHERE id = ?", (session,)).fetchone()
    if row is None:
        raise UserError(f"no session {session} in this run")
    return row["file"], row["begin"], row["length"]


def group_ids(base: sqlite3.Connection, uid: str, step: int | None, split: str | None) -> list[int]:
    """The sessions of a group, in order; a step or split may be left open where the group has one alone.

    Raises:
        UserError: there is none.
    """
    pairs = [("uid", uid)]
    pairs += [] if step is None else [("step", str(step))]
    pairs += [] if split is None else [("split", split)]
    where = condition(pairs)
    found = base.execute(
        f"SELECT id FROM sessions {where.where} ORDER BY split, step, session LIMIT 256",
        where.values,
    )
    ids = [row["id"] for row in found]
    if not ids:
        raise UserError(f"no group {uid!r} in this run")
    return ids


def group_rewards(base: sqlite3.Connection, uid: str, step: int) -> dict[int, float]:
    """Rewards of the sessions of a group that were trained on, by their numbers."""
    rows = base.execute(
        "SELECT session, reward FROM sessions WHERE uid = ? AND step = ? AND split = 'train' AND mask = '' "
        "AND reward IS NOT NULL",
        (uid, step),
    )
    return {row["session"]: row["reward"] for row in rows}


def summary(base: sqlite3.Connection) -> dict[str, Any]:
    """What a run holds, in a few numbers."""
    steps: Mapping[str, list[int]] = {"train": [], "val": []}
    for split, step in base.execute("SELECT DISTINCT split, step FROM sessions ORDER BY step"):
        if split in steps:
            steps[split].append(step)
    return {
        "systems": _column(base.execute("SELECT DISTINCT system FROM sessions ORDER BY 1")),
        "steps": steps,
        "sessions": base.execute("SELECT count(*) FROM sessions").fetchone()[0],
        "terms": _column(base.execute("SELECT DISTINCT name FROM terms ORDER BY 1")),
        "damaged": base.execute("SELECT coalesce(sum(damaged), 0) FROM files").fetchone()[0],
        "revision": base.execute("SELECT revision FROM state").fetchone()[0],
    }


def _column(rows: Iterable[sqlite3.Row]) -> list[Any]:
    return [row[0] for row in rows]


def _order(sort: str, order: str) -> tuple[str, tuple[str, ...]]:
    if order not in ("asc", "desc"):
        raise UserError(f"order={order!r}: give asc or desc")
    if sort.startswith("term:"):
        by = "(SELECT value FROM terms WHERE session = sessions.id AND name = ?)"
        return f"{by} IS NULL, {by} {order}", (sort.removeprefix("term:"),) * 2
    if sort not in _SORTS:
        raise UserError(f"sort={sort!r}; known are {', '.join(_SORTS)}, term:<name>")
    return f"{_SORTS[sort]} IS NULL, {_SORTS[sort]} {order}", ()


def _count(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 9):
        raise UserError(f"{name}={text!r} is no number of sessions")
    return int(text)
