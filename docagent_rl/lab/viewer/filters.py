"""Which sessions a link means: parameters of a URL as a condition of SQL, never as its text."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
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
"""Those that are counted value by value, with their columns."""
_EXACT = {**FIELDS, "question_id": "question_id", "doc_id": "doc_id", "uid": "uid"}
_RANGES = {
    "turns": "turns",
    "invalid": "invalid",
    "tokens": "tokens",
    "images": "images",
    "reward": "reward",
    "seconds": "seconds",
    "drift": "drift",
    "advantage": "advantage",
}
_FLAGS = {"right": '"right"', "guessed": "guessed", "reach": "reach", "truncated": "truncated"}
_TERM = "term:"
_WORD = re.compile(r"\w+")
_MOST = 5_000
"""Values of one link."""

Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the table `sessions`.

    Args:
        sql: with question marks.
        values: for them.
    """

    sql: str
    values: tuple[object, ...]

    @property
    def where(self) -> str:
        """As a clause."""
        return f"WHERE {self.sql}"


def read_pairs(query: str) -> list[Pair]:
    """The parameters of a query string.

    Raises:
        UserError: there are too many.
    """
    try:
        return parse_qsl(query.removeprefix("?"), keep_blank_values=True, max_num_fields=_MOST)
    except ValueError as error:
        raise UserError(f"the link has too many parameters: {error}") from error


def condition(pairs: Iterable[Pair], *, without: str = "", ignored: Collection[str] = ()) -> Condition:
    """The sessions of a link; values of one parameter are alternatives, parameters hold together.

    Args:
        pairs: names and values.
        without: a parameter to leave out, as counting its values needs.
        ignored: parameters that mean something else, such as the order.

    Raises:
        UserError: a parameter is unknown, or a value is none that it takes.
    """
    wanted: dict[str, list[str]] = {}
    for name, value in pairs:
        if name not in ignored and name != without:
            wanted.setdefault(name, []).append(value)
    parts = [_part(name, values) for name, values in wanted.items()]
    sql = " AND ".join(f"({part.sql})" for part in parts) or "1"
    return Condition(sql, tuple(value for part in parts for value in part.values))


def _part(name: str, values: Sequence[str]) -> Condition:
    if name == "ids":
        numbers = [_whole(each, name) for value in values for each in value.split(",") if each]
        return _listed("id", numbers)
    if name == "q":
        return _any([_search(value) for value in values])
    if name == "step":
        return _any([_between("step", *_steps(value)) for value in values])
    if name in _FLAGS:
        return _any([_flag(name, value) for value in values])
    if name in _EXACT:
        return _listed(_EXACT[name], values)
    if name in _RANGES:
        return _any([_between(_RANGES[name], *_range(name, value)) for value in values])
    if name.startswith(_TERM):
        return _any([_term(name.removeprefix(_TERM), name, value) for value in values])
    known = ", ".join(["ids", "q", *_EXACT, *_RANGES, *_FLAGS, f"{_TERM}<name>"])
    raise UserError(f"unknown parameter {name!r}; known are {known}")


def _any(parts: Sequence[Condition]) -> Condition:
    sql = " OR ".join(f"({part.sql})" for part in parts)
    return Condition(sql, tuple(value for part in parts for value in part.values))


def _listed(column: str, values: Sequence[object]) -> Condition:
    marks = ", ".join("?" * len(values))
    return Condition(f"{column} IN ({marks})", tuple(values))


def _between(column: str, low: float | None, high: float | None) -> Condition:
    parts = [(f"{column} >= ?", low), (f"{column} <= ?", high)]
    given = [(sql, value) for sql, value in parts if value is not None]
    sql = " AND ".join(part for part, _ in given) or f"{column} IS NOT NULL"
    return Condition(sql, tuple(value for _, value in given))


def _flag(name: str, value: str) -> Condition:
    if value not in ("0", "1", ""):
        raise UserError(f"{name}={value!r}: give 1, 0, or nothing for unknown")
    return Condition(f"{_FLAGS[name]} IS ?", (int(value) if value else None,))


def _term(term: str, name: str, value: str) -> Condition:
    between = _between("value", *_range(name, value))
    sql = f"id IN (SELECT session FROM terms WHERE name = ? AND {between.sql})"
    return Condition(sql, (term, *between.values))


def _search(text: str) -> Condition:
    words = _WORD.findall(text)
    if not words:
        return Condition("1", ())
    # each word as one that begins so; quoted, it is never an operator
    query = " ".join(f'"{word}"*' for word in words)
    return Condition("text_id IN (SELECT rowid FROM texts WHERE texts MATCH ?)", (query,))


def _steps(value: str) -> tuple[float | None, float | None]:
    first, dash, last = value.partition("-")
    low = _whole(first, "step") if first else None
    return low, (_whole(last, "step") if last else None) if dash else low


def _range(name: str, value: str) -> tuple[float | None, float | None]:
    """`A:B`, or `A-B` of numbers that are not negative; either end may be left out; one number is itself."""
    first, mark, last = value.partition(":") if ":" in value else value.partition("-")
    if not mark or (not first and ":" not in value):
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


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 16):
        raise UserError(f"{name}={text!r} is no whole number")
    return int(text)
