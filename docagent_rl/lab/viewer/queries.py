"""Questions to the index of a run: lists, counts, groups."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.filters import FIELDS, TERM, Pair, condition, whole

LIST_OPTIONS = frozenset({"sort", "order", "offset", "limit"})
MOST_ROWS = 1_000
_SORTS = (
    "reward", "step", "turns", "invalid", "tokens", "images", "question", "advantage", "seconds", "number",
    "system", "status", "stage", "drift",
)  # fmt: skip
_HIDDEN = ("file", "begin", "length", "text_id", "reach", "branch", "search_k", "search_within")
_RANGES = ("reward", "turns", "invalid", "tokens", "images", "step", "seconds")


def trajectories(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return a piece of the list of a link as `rows`, and the length of the whole as `total`.

    Raises:
        UserError: a parameter is unknown, or does not take its value.
    """
    options = {name: value for name, value in pairs if name in LIST_OPTIONS}
    where, values = condition(pairs, ignored=LIST_OPTIONS)
    offset = whole(options.get("offset", "0"), "offset")
    limit = min(whole(options.get("limit", "100"), "limit"), MOST_ROWS)
    order, own = _order(options.get("sort", "step"), options.get("order", "asc"))
    (total,) = base.execute(f"SELECT count(*) FROM trajectories WHERE {where}", values).fetchone()
    found = base.execute(
        f"SELECT * FROM trajectories WHERE {where} ORDER BY {order}, split, step, uid, number "
        "LIMIT ? OFFSET ?",
        (*values, *own, limit, offset),
    )
    return {"total": total, "rows": [_row(row) for row in found]}


def _row(row: sqlite3.Row) -> dict[str, Any]:
    found = {name: value for name, value in dict(row).items() if name not in _HIDDEN}
    found["terms"], found["gold"] = json.loads(found["terms"]), json.loads(found["gold"])
    found["stage"] = found["stage"] or None
    for name in ("right", "guessed", "truncated"):
        found[name] = None if found[name] is None else bool(found[name])
    return found


def facets(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return how many trajectories each value of a field has under the other fields' filters, and ranges."""
    found: dict[str, Any] = {}
    for name, column in FIELDS.items():
        where, values = condition(pairs, ignored={*LIST_OPTIONS, name})
        counted = base.execute(
            f"SELECT {column}, count(*) FROM trajectories WHERE {where} GROUP BY 1 ORDER BY 1", values
        )
        found[name] = [{"value": str(value), "count": count} for value, count in counted if value != ""]
    return {**found, "ranges": _ranges(base, pairs)}


def _ranges(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, list[float]]:
    where, values = condition(pairs, ignored=LIST_OPTIONS)
    columns = ", ".join(f"min({name}), max({name})" for name in _RANGES)
    ends = base.execute(f"SELECT {columns} FROM trajectories WHERE {where}", values).fetchone()
    found = {name: list(ends[2 * n : 2 * n + 2]) for n, name in enumerate(_RANGES)}
    terms = base.execute(
        "SELECT name, min(value), max(value) FROM terms "
        f"WHERE trajectory IN (SELECT id FROM trajectories WHERE {where}) GROUP BY name",
        values,
    )
    found |= {f"{TERM}{name}": [low, high] for name, low, high in terms}
    return {name: ends for name, ends in found.items() if ends[0] is not None}


def trajectory_row(base: sqlite3.Connection, trajectory: int) -> sqlite3.Row:
    """Return the row of a trajectory.

    Raises:
        UserError: there is no such trajectory.
    """
    row = base.execute("SELECT * FROM trajectories WHERE id = ?", (trajectory,)).fetchone()
    if row is None:
        raise UserError(f"no trajectory {trajectory} in this run")
    return row


def group_ids(base: sqlite3.Connection, uid: str, options: Mapping[str, str]) -> list[int]:
    """Return the trajectories of a group in order; `step` and `split` may be left out where it has one alone.

    Raises:
        UserError: there is none.
    """
    named = [(name, options[name]) for name in ("step", "split") if options.get(name)]
    where, values = condition([("uid", uid), *named])
    found = base.execute(
        f"SELECT id FROM trajectories WHERE {where} ORDER BY split, step, number LIMIT 256", values
    ).fetchall()
    if not found:
        raise UserError(f"no group {uid!r} in this run")
    return [row["id"] for row in found]


def group_rewards(base: sqlite3.Connection, uid: str, step: int) -> dict[int, float]:
    """Return the rewards of the trajectories of a group that were trained on, by their numbers."""
    rows = base.execute(
        "SELECT number, reward FROM trajectories WHERE uid = ? AND step = ? AND split = "
        "'train' AND mask = '' "
        "AND reward IS NOT NULL",
        (uid, step),
    )
    return dict(map(tuple, rows))


def summary(base: sqlite3.Connection) -> dict[str, Any]:
    """Return what a run holds, in a few numbers."""

    def column(sql: str, *values: object) -> list[Any]:
        return [row[0] for row in base.execute(sql, values)]

    steps = "SELECT DISTINCT step FROM trajectories WHERE split = ? ORDER BY step"
    return {
        "systems": column("SELECT DISTINCT system FROM trajectories ORDER BY 1"),
        "steps": {split: column(steps, split) for split in ("train", "val")},
        "trajectories": column("SELECT count(*) FROM trajectories")[0],
        "terms": column("SELECT DISTINCT name FROM terms ORDER BY 1"),
        "damaged": column("SELECT coalesce(sum(damaged), 0) FROM files")[0],
        "revision": column("SELECT revision FROM state")[0],
    }


def _order(sort: str, order: str) -> tuple[str, tuple[str, ...]]:
    if order not in ("asc", "desc"):
        raise UserError(f"order={order!r}: give asc or desc")
    if sort.startswith(TERM):
        by = "(SELECT value FROM terms WHERE trajectory = trajectories.id AND name = ?)"
        return f"{by} IS NULL, {by} {order}", (sort.removeprefix(TERM),) * 2
    if sort not in _SORTS:
        raise UserError(f"sort={sort!r}; known are {', '.join(_SORTS)}, {TERM}<name>")
    return f"{sort} IS NULL, {sort} {order}", ()
