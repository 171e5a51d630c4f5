"""Numbers of the steps of a split, out of the index: what warnings are made of."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field

from docagent_rl.rollout.evidence import Stage

_CAME_FAR = (Stage.KEPT.value, Stage.RIGHT.value)


@dataclass(slots=True)
class StepNumbers:
    """One step; sessions that are masked count in `masked` and `sessions` alone.

    Args:
        step: its number.
        sessions: all of them.
        masked: those that were not played.
        reward: mean.
        invalid: share of turns whose action was invalid.
        truncated: share of sessions.
        drift: mean absolute difference of log-probs, server and trainer.
        kept: share of the sessions with known evidence that had it before their eyes when answering.
        right: share that answered right; `None` where nobody judged.
        guessed: of those, the share to whom not every gold page was shown.
        terms: lowest and highest value of each reward term.
        groups: groups of several sessions.
        even: those in which all rewards are equal, by uid.
    """

    step: int
    sessions: int = 0
    masked: int = 0
    reward: float | None = None
    invalid: float | None = None
    truncated: float | None = None
    drift: float | None = None
    kept: float | None = None
    right: float | None = None
    guessed: float | None = None
    terms: dict[str, tuple[float, float]] = field(default_factory=dict)
    groups: int = 0
    even: list[str] = field(default_factory=list)


def step_numbers(base: sqlite3.Connection, split: str) -> list[StepNumbers]:
    """The steps of a split, in order."""
    found: dict[int, StepNumbers] = {}
    rows = base.execute(
        "SELECT step, count(*), sum(mask != '') FROM sessions WHERE split = ? GROUP BY step", (split,)
    )
    for step, count, masked in rows:
        found[step] = StepNumbers(step, count, masked)
    rows = base.execute(
        "SELECT step, avg(reward), sum(invalid) * 1.0 / max(sum(turns), 1), avg(truncated), avg(drift), "
        f"avg(CASE WHEN stage = '' THEN NULL ELSE stage IN {_CAME_FAR} END), avg(\"right\"), "
        "sum(guessed) * 1.0 / nullif(sum(\"right\" AND stage != ''), 0) "
        "FROM sessions WHERE split = ? AND mask = '' GROUP BY step",
        (split,),
    )
    for step, *numbers in rows:
        each = found[step]
        each.reward, each.invalid, each.truncated, each.drift, each.kept, each.right, each.guessed = numbers
    rows = base.execute(
        "SELECT step, name, min(value), max(value) FROM terms JOIN sessions ON terms.session = id "
        "WHERE split = ? AND mask = '' GROUP BY step, name",
        (split,),
    )
    for step, name, low, high in rows:
        found[step].terms[name] = low, high
    rows = base.execute(
        "SELECT step, uid, min(reward), max(reward) FROM sessions WHERE split = ? AND mask = '' "
        "GROUP BY step, uid HAVING count(*) > 1 ORDER BY step, uid",
        (split,),
    )
    even: dict[int, list[str]] = defaultdict(list)
    for step, uid, low, high in rows:
        found[step].groups += 1
        if low == high:
            even[step].append(uid)
    for step, uids in even.items():
        found[step].even = uids
    return [found[step] for step in sorted(found)]
