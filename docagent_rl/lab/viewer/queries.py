"""Queries of a run's index: lists, counts and groups for the parameters of a link.

Values of parameters never become part of the SQL. An unknown parameter or an invalid value raises a
`UserError` that names the parameter.
"""

import json
import math
import re
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from docagent_rl.base.errors import UserError

FIELDS = {
    "split": "split",
    "step": "step",
    "system": "system",
    "dataset": "dataset",
    "status": "status",
    "end": '"end"',
    "mask": "mask",
    "stage": "stage",
    "outcome": "outcome",
    "branch": "branch",
    "kind": "evidence_kind",
}
"""Parameters whose values are counted, with their columns."""
_EXACT = {**FIELDS, "question_id": "question_id", "doc_id": "doc_id", "uid": "uid"}
_NUMBERS = (
    "step",
    "turns",
    "invalid",
    "tokens",
    "images",
    "reward",
    "seconds",
    "drift",
    "advantage",
)
_FLAGS = ("guessed", "reach", "truncated")
TERM = "term:"
_WORD = re.compile(r"\w+")
LIST_OPTIONS = frozenset({"sort", "order", "offset", "limit"})
_MOST_ROWS = 1_000
_SORTS = (*_NUMBERS, "question")
_HIDDEN = ("file", "begin", "length", "text_id", "reach", "branch")
TERM_VALUE = "(SELECT value FROM json_each(terms) WHERE key = ?)"

Pair = tuple[str, str]


class SqlCondition(NamedTuple):
    """A condition on the table `trajectories`: SQL with placeholders, and their values."""

    sql: str
    values: tuple[object, ...] = ()


def condition(pairs: Iterable[Pair], *, ignored: Collection[str] = ()) -> SqlCondition:
    """Return the condition of a link: any of the values given for a parameter, for all parameters.

    Raises:
        UserError: a parameter is unknown, or its value is invalid.
    """
    given: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in ignored:
            given.setdefault(name, []).append(value)
    return _joined(" AND ", [_part(name, values) for name, values in given.items()])


def whole(text: str, name: str) -> int:
    """Parse a whole number that is not negative; an error names the parameter."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise UserError(f"{name}={text!r} is not a whole number")
    return int(text)


def _part(name: str, values: Sequence[str]) -> SqlCondition:
    if name == "ids":
        return _listed(
            "id", [whole(each, name) for value in values for each in value.split(",") if each]
        )
    if name == "q":
        return _joined(" OR ", [_search(value) for value in values])
    if name in _FLAGS:
        if wrong := [value for value in values if value not in ("0", "1", "")]:
            raise UserError(f"{name}={wrong[0]!r}: must be 1, 0, or empty for unknown")
        flags = [
            SqlCondition(f'"{name}" IS ?', (int(value) if value else None,)) for value in values
        ]
        return _joined(" OR ", flags)
    if name in _NUMBERS:
        return _joined(" OR ", [_between(name, *_range(name, value)) for value in values])
    if name in _EXACT:
        return _listed(_EXACT[name], values)
    if name.startswith(TERM):
        return _joined(" OR ", [_term(name, value) for value in values])
    known = ", ".join(["ids", "q", *_EXACT, *_NUMBERS, *_FLAGS, f"{TERM}<name>"])
    raise UserError(f"unknown parameter {name!r}; choose one of {known}")


def _joined(operator: str, parts: Sequence[SqlCondition]) -> SqlCondition:
    sql = operator.join(f"({part.sql})" for part in parts) or "1"
    return SqlCondition(sql, tuple(value for part in parts for value in part.values))


def _listed(column: str, values: Sequence[object]) -> SqlCondition:
    return SqlCondition(f"{column} IN ({', '.join('?' * len(values))})", tuple(values))


def _between(column: str, low: float | None, high: float | None) -> SqlCondition:
    ends = [
        (f"{column} {sign} ?", end) for sign, end in ((">=", low), ("<=", high)) if end is not None
    ]
    sql = " AND ".join(part for part, _ in ends) or f"{column} IS NOT NULL"
    return SqlCondition(sql, tuple(value for _, value in ends))


def _term(name: str, value: str) -> SqlCondition:
    sql, values = _between("value", *_range(name, value))
    term = name.removeprefix(TERM)
    return SqlCondition(
        f"EXISTS (SELECT 1 FROM json_each(terms) WHERE key = ? AND {sql})", (term, *values)
    )


def _search(text: str) -> SqlCondition:
    words = _WORD.findall(text)
    if not words:
        return SqlCondition("1")
    # each word matches as a prefix; quoted, it is never an operator
    query = " ".join(f'"{word}"*' for word in words)
    return SqlCondition("text_id IN (SELECT rowid FROM texts WHERE texts MATCH ?)", (query,))


def _range(name: str, value: str) -> tuple[float | None, float | None]:
    """Parse `A:B`, where either end may be left out; a single number is both ends."""
    first, mark, last = value.partition(":")
    try:
        ends = [float(end) if end else None for end in (first, last if mark else first)]
    except ValueError:
        ends = [math.nan]
    if not all(end is None or math.isfinite(end) for end in ends):
        raise UserError(f"{name}={value!r} is not a range of numbers; write A:B, A: or :B")
    return ends[0], ends[1]


def trajectories(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return one page of a link's list as `rows`, and the number of all rows as `total`.

    The newest step comes first, or the highest value of the field `sort`; `order=asc` reverses
    that.
    """
    options = {name: value for name, value in pairs if name in LIST_OPTIONS}
    where, values = condition(pairs, ignored=LIST_OPTIONS)
    offset = whole(options.get("offset", "0"), "offset")
    limit = min(whole(options.get("limit", "100"), "limit"), _MOST_ROWS)
    order, own = _order(options.get("sort", "step"), options.get("order", "desc"))
    (total,) = base.execute(f"SELECT count(*) FROM trajectories WHERE {where}", values).fetchone()
    found = base.execute(
        f"SELECT * FROM trajectories WHERE {where} ORDER BY {order}, split, step, uid, number "
        "LIMIT ? OFFSET ?",
        (*values, *own, limit, offset),
    )
    return {"total": total, "rows": [_row(row) for row in found]}


def _row(row: sqlite3.Row) -> dict[str, Any]:
    found = {name: value for name, value in dict(row).items() if name not in _HIDDEN}
    found["terms"] = json.loads(found["terms"])
    found["gold"] = json.loads(found["gold"])
    for name in ("stage", "outcome"):
        found[name] = found[name] or None
    for name in ("guessed", "truncated"):
        found[name] = None if found[name] is None else bool(found[name])
    return found


def facets(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the number of trajectories for each value of a field, under the other fields' filters,
    and the ranges of numbers.
    """
    found: dict[str, Any] = {}
    for name, column in FIELDS.items():
        where, values = condition(pairs, ignored={*LIST_OPTIONS, name})
        counted = base.execute(
            f"SELECT {column}, count(*) FROM trajectories WHERE {where} GROUP BY 1 ORDER BY 1",
            values,
        )
        found[name] = [
            {"value": str(value), "count": count} for value, count in counted if value != ""
        ]
    where, values = condition(pairs, ignored=LIST_OPTIONS)
    columns = ", ".join(f"min({name}), max({name})" for name in _NUMBERS)
    ends = base.execute(f"SELECT {columns} FROM trajectories WHERE {where}", values).fetchone()
    ranges = {name: list(ends[2 * n : 2 * n + 2]) for n, name in enumerate(_NUMBERS)}
    terms = base.execute(
        f"SELECT key, min(value), max(value) FROM (SELECT terms FROM trajectories WHERE {where}), "
        "json_each(terms) GROUP BY key",
        values,
    )
    ranges |= {f"{TERM}{name}": [low, high] for name, low, high in terms}
    found["ranges"] = {name: ends for name, ends in ranges.items() if ends[0] is not None}
    return found


def trajectory_row(base: sqlite3.Connection, trajectory: int) -> sqlite3.Row:
    """Return the row of a trajectory."""
    row = base.execute("SELECT * FROM trajectories WHERE id = ?", (trajectory,)).fetchone()
    if row is None:
        raise UserError(
            f"this run has no trajectory {trajectory}: take an id from its list of trajectories"
        )
    return row


def group_ids(base: sqlite3.Connection, uid: str, options: Mapping[str, str]) -> list[int]:
    """Return the ids of a group's trajectories in order; without `step` and `split`, of all."""
    named = [(name, options[name]) for name in ("step", "split") if options.get(name)]
    where, values = condition([("uid", uid), *named])
    found = base.execute(
        f"SELECT id FROM trajectories WHERE {where} ORDER BY split, step, number LIMIT 256", values
    ).fetchall()
    if not found:
        raise UserError(f"this run has no group {uid!r}: take a uid from its list of groups")
    return [row["id"] for row in found]


def summary(base: sqlite3.Connection) -> dict[str, Any]:
    """Return the systems, steps and terms of a run, and a few counts."""

    def column(sql: str, *values: object) -> list[Any]:
        return [row[0] for row in base.execute(sql, values)]

    steps = "SELECT DISTINCT step FROM trajectories WHERE split = ? ORDER BY step"
    return {
        "systems": column("SELECT DISTINCT system FROM trajectories ORDER BY 1"),
        "steps": {split: column(steps, split) for split in ("train", "val")},
        "trajectories": column("SELECT count(*) FROM trajectories")[0],
        "terms": column("SELECT DISTINCT key FROM trajectories, json_each(terms) ORDER BY 1"),
        "damaged": column("SELECT coalesce(sum(damaged), 0) FROM files")[0],
        "revision": column("SELECT revision FROM state")[0],
    }


def _order(sort: str, order: str) -> tuple[str, tuple[str, ...]]:
    if order not in ("asc", "desc"):
        raise UserError(f"order={order!r}: must be asc or desc")
    if sort.startswith(TERM):
        return f"{TERM_VALUE} IS NULL, {TERM_VALUE} {order}", (sort.removeprefix(TERM),) * 2
    if sort not in _SORTS:
        raise UserError(f"sort={sort!r}: choose one of {', '.join(_SORTS)}, {TERM}<name>")
    return f"{sort} IS NULL, {sort} {order}", ()
