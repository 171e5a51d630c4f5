"""Parameters of a link as a condition on the trajectories of an index; values never become part of its
SQL.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

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
    "branch": "branch",
    "kind": "evidence_kind",
}
"""Parameters whose values are counted, with their columns."""
_EXACT = {**FIELDS, "question_id": "question_id", "doc_id": "doc_id", "uid": "uid"}
_RANGES = ("turns", "invalid", "tokens", "images", "reward", "seconds", "drift", "advantage")
_FLAGS = ("right", "guessed", "reach", "truncated")
TERM = "term:"
_WORD = re.compile(r"\w+")
_MOST = 5_000
"""Parameters of one link."""

Pair = tuple[str, str]


class Condition(NamedTuple):
    """A condition on the table `trajectories`: SQL with question marks, and their values."""

    sql: str
    values: tuple[object, ...] = ()


def read_pairs(query: str) -> list[Pair]:
    """Read the parameters of a query string.

    Raises:
        UserError: there are too many.
    """
    try:
        return parse_qsl(query.removeprefix("?"), keep_blank_values=True, max_num_fields=_MOST)
    except ValueError as error:
        raise UserError(f"the link has too many parameters: {error}") from error


def condition(pairs: Iterable[Pair], *, ignored: Collection[str] = ()) -> Condition:
    """Return the condition of a link; values of one parameter are alternatives, parameters hold together.

    Raises:
        UserError: a parameter is unknown, or does not take its value.
    """
    wanted: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in ignored:
            wanted.setdefault(name, []).append(value)
    return _joined(" AND ", [_part(name, values) for name, values in wanted.items()])


def whole(text: str, name: str) -> int:
    """Read a whole number that is not negative; an error names the parameter."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise UserError(f"{name}={text!r} is no whole number")
    return int(text)


def _part(name: str, values: Sequence[str]) -> Condition:
    if name == "ids":
        return _listed("id", [whole(each, name) for value in values for each in value.split(",") if each])
    if name == "q":
        return _joined(" OR ", [_search(value) for value in values])
    if name == "step":
        return _joined(" OR ", [_between("step", *_steps(value)) for value in values])
    if name in _FLAGS:
        return _joined(" OR ", [_flag(name, value) for value in values])
    if name in _EXACT:
        return _listed(_EXACT[name], values)
    if name in _RANGES:
        return _joined(" OR ", [_between(name, *_range(name, value)) for value in values])
    if name.startswith(TERM):
        return _joined(" OR ", [_term(name, value) for value in values])
    known = ", ".join(["ids", "q", *_EXACT, *_RANGES, *_FLAGS, f"{TERM}<name>"])
    raise UserError(f"unknown parameter {name!r}; known are {known}")


def _joined(operator: str, parts: Sequence[Condition]) -> Condition:
    sql = operator.join(f"({part.sql})" for part in parts) or "1"
    return Condition(sql, tuple(value for part in parts for value in part.values))


def _listed(column: str, values: Sequence[object]) -> Condition:
    return Condition(f"{column} IN ({', '.join('?' * len(values))})", tuple(values))


def _between(column: str, low: float | None, high: float | None) -> Condition:
    given = [(f"{column} {sign} ?", end) for sign, end in ((">=", low), ("<=", high)) if end is not None]
    sql = " AND ".join(part for part, _ in given) or f"{column} IS NOT NULL"
    return Condition(sql, tuple(value for _, value in given))


def _flag(name: str, value: str) -> Condition:
    if value not in ("0", "1", ""):
        raise UserError(f"{name}={value!r}: give 1, 0, or nothing for unknown")
    return Condition(f'"{name}" IS ?', (int(value) if value else None,))


def _term(name: str, value: str) -> Condition:
    sql, values = _between("value", *_range(name, value))
    term = name.removeprefix(TERM)
    return Condition(f"id IN (SELECT trajectory FROM terms WHERE name = ? AND {sql})", (term, *values))


def _search(text: str) -> Condition:
    words = _WORD.findall(text)
    if not words:
        return Condition("1")
    # each word as the beginning of one; quoted, it is never an operator
    query = " ".join(f'"{word}"*' for word in words)
    return Condition("text_id IN (SELECT rowid FROM texts WHERE texts MATCH ?)", (query,))


def _steps(value: str) -> tuple[float | None, float | None]:
    first, dash, last = value.partition("-")
    low = whole(first, "step") if first else None
    return low, (whole(last, "step") if last else None) if dash else low


def _range(name: str, value: str) -> tuple[float | None, float | None]:
    """Read `A:B`, or `A-B` of numbers that are not negative; an end may be left out; one number is itself."""
    first, mark, last = value.partition(":" if ":" in value else "-")
    if not mark or (not first and mark == "-"):
        one = _number(value, name)
        return one, one
    return (_number(first, name) if first else None), (_number(last, name) if last else None)


def _number(text: str, name: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise UserError(f"{name}={text!r} is no number; give A:B, A: or :B")
    return found
