"""Two runs over the questions that both have."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.eval.report.paired import compare
from docagent_rl.lab.eval.report.permutation import FEWEST
from docagent_rl.lab.eval.scoring.measures import mean
from docagent_rl.lab.eval.scoring.scored import ScoredSession
from docagent_rl.lab.viewer.runs import OpenRun

DRAWS = 2_000
"""Resamples of documents."""
_COLUMNS = ("reward", "turns", "tokens", "invalid", "images", "seconds", "right")
_TERM = "term:"
METHOD = (
    "difference b - a of the means over the questions that both have, sessions of a question averaged; 95% "
    f"interval by {DRAWS} resamples of documents, p by changing the sides of documents"
)


@dataclass(frozen=True, slots=True)
class Value:
    """What is compared, of one session."""

    session: int
    question_id: str
    question: str
    doc_id: str
    value: float


def comparison(
    runs: Sequence[OpenRun], split: str, measure: str, steps: Sequence[int | None]
) -> dict[str, Any]:
    """Two runs, or two steps of one, ready for JSON.

    `same_sessions` says that both hold the same sessions, rewarded in two ways; `same_reward` whether both
    are rewarded alike, `None` where that is not known or nothing that is compared depends on it.

    Args:
        runs: the two, or one twice.
        split: `train` or `val`.
        measure: a column, or `term:<name>`.
        steps: of each; the last there is by default, of one run its first and its last.

    Raises:
        UserError: there is nothing to compare, or no such number.
    """
    folders = [run.folder for run in runs]
    same = folders[0].same_sessions(folders[1]) and steps == [None, None]
    with runs[0].index() as first, runs[1].index() as second:
        if same:
            numbers: list[int | None] = [None, None]
            ours, theirs = values_of_shared(first, second, measure, split)
        else:
            ends = ("min" if runs[0] is runs[1] else "max", "max")
            numbers = [
                _step_of(base, split, end) if step is None else step
                for base, end, step in zip((first, second), ends, steps, strict=True)
            ]
            if runs[0] is runs[1] and numbers[0] == numbers[1]:
                raise UserError(f"both sides are step {numbers[0]} of one run: choose two steps")
            ours, theirs = (
                values_of(base, measure, split, step)
                for base, step in zip((first, second), numbers, strict=True)
            )
    alike = None
    if (measure == "reward" or measure.startswith(_TERM)) and all(folder.reward for folder in folders):
        alike = folders[0].reward == folders[1].reward
    formulas = [None if folder.reward is None else str(folder.reward.formula) for folder in folders]
    told = {"step_a": numbers[0], "step_b": numbers[1], "formula_a": formulas[0], "formula_b": formulas[1]}
    return {**told, "same_sessions": same, "same_reward": alike, **compared(ours, theirs)}


def compared(first: Sequence[Value], second: Sequence[Value], *, seed: int = 0) -> dict[str, Any]:
    """The sessions of two sides; questions pair by their ids, and only where they are about one document.

    Args:
        first: sessions of the one.
        second: of the other.
        seed: of the resamples.

    Raises:
        UserError: they have no question in common.
    """
    measure = mean("value", "value")
    ours, theirs = ([_scored(each) for each in values] for values in (first, second))
    found = compare(ours, theirs, [measure], draws=DRAWS, seed=seed)
    a, b = _by_question(first), _by_question(second)
    clashing = set(found.clashing)
    both = sorted(key for key in a.keys() & b.keys() if key not in clashing)
    if not both:
        raise UserError("the two have no question in common, by id and document")
    whole = found.whole[0]
    rows: list[dict[str, Any]] = [
        {
            "question_id": key,
            "question": a[key][0].question,
            "a": fmean(each.value for each in a[key]),
            "b": fmean(each.value for each in b[key]),
            "session_a": a[key][0].session,
            "session_b": b[key][0].session,
        }
        for key in both
    ]
    rows.sort(key=lambda row: (row["b"] - row["a"], row["question_id"]))
    return {
        "pairs": len(rows),
        "mean_a": whole.first,
        "mean_b": whole.second,
        "difference": whole.gain.value,
        "low": whole.gain.low,
        "high": whole.gain.high,
        "p": whole.p,
        "least_p": whole.least_p,
        "fewest_documents": FEWEST,
        "documents": whole.gain.documents,
        "only_a": len(found.only_first),
        "only_b": len(found.only_second),
        "clashing": len(found.clashing),
        "won": found.won,
        "lost": found.lost,
        "tied": found.tied,
        "method": METHOD,
        "rows": rows,
    }


def _step_of(base: sqlite3.Connection, split: str, end: str) -> int:
    (step,) = base.execute(f"SELECT {end}(step) FROM sessions WHERE split = ?", (split,)).fetchone()
    if step is None:
        raise UserError(f"a run has no sessions of split={split}")
    return step


def values_of(base: sqlite3.Connection, measure: str, split: str, step: int | None) -> list[Value]:
    """Sessions of a step that were played, with a number of each.

    Args:
        base: the index.
        measure: a column, or `term:<name>`.
        split: `train` or `val`.
        step: of the sessions.

    Raises:
        UserError: there is no such number.
    """
    column, given = _column(measure)
    rows = base.execute(
        f"SELECT id, question_id, question, doc_id, {column} AS value FROM sessions "
        "WHERE split = ? AND step = ? AND status != 'masked' ORDER BY session",
        (*given, split, step),
    )
    return [Value(*tuple(row)) for row in rows if row["value"] is not None]


def values_of_shared(
    first: sqlite3.Connection, second: sqlite3.Connection, measure: str, split: str
) -> tuple[list[Value], list[Value]]:
    """The sessions that both runs hold, of all steps: those of a run that was paid again, and of its own.

    Args:
        first: the index of the one.
        second: of the other.
        measure: a column, or `term:<name>`.
        split: `train` or `val`.

    Raises:
        UserError: there are none, or no such number.
    """
    ours, theirs = (_by_session(base, measure, split) for base in (first, second))
    both = [key for key in ours if key in theirs]
    if not both:
        raise UserError(f"the two have no session of split={split} in common that has this number")
    return [ours[key] for key in both], [theirs[key] for key in both]


def _by_session(base: sqlite3.Connection, measure: str, split: str) -> dict[tuple[Any, ...], Value]:
    column, given = _column(measure)
    rows = base.execute(
        f"SELECT step, uid, session, id, question_id, question, doc_id, {column} AS value FROM sessions "
        "WHERE split = ? AND status != 'masked' ORDER BY step, uid, session",
        (*given, split),
    )
    return {tuple(row)[:3]: Value(*tuple(row)[3:]) for row in rows if row["value"] is not None}


def _column(measure: str) -> tuple[str, tuple[str, ...]]:
    if measure.startswith(_TERM):
        own = "(SELECT value FROM terms WHERE session = sessions.id AND name = ?)"
        return own, (measure.removeprefix(_TERM),)
    if measure not in _COLUMNS:
        raise UserError(f"measure={measure!r}; known are {', '.join(_COLUMNS)}, term:<name>")
    return f'"{measure}"', ()


def _by_question(values: Iterable[Value]) -> Mapping[str, list[Value]]:
    found: dict[str, list[Value]] = {}
    for each in values:
        found.setdefault(each.question_id, []).append(each)
    return found


def _scored(each: Value) -> ScoredSession:
    return ScoredSession(
        question_id=each.question_id,
        session=0,
        document=each.doc_id,
        dataset="",
        system="",
        agent="",
        status="",
        reason="",
        scored=True,
        answer=None,
        prediction=None,
        labels={},
        groups=[],
        values={"value": float(each.value)},
    )
