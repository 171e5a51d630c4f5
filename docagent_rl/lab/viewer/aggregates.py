"""Numbers of the steps of a split, out of the index: what warnings are made of."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from docagent_rl.rollout.evidence import STAGES, Stage

_SHOWN = tuple(stage.value for stage in STAGES[STAGES.index(Stage.SHOWN) :])


class Share(NamedTuple):
    """A sum and what it is over; of several steps both are added up, so that none weighs more than it has.

    Args:
        total: the sum.
        count: what it is over; 0 where nothing is known.
    """

    total: float = 0
    count: int = 0

    @property
    def mean(self) -> float:
        """Return the ratio, of something."""
        return self.total / self.count

    def __str__(self) -> str:
        return f"{self.total:g} of {self.count}"


UNKNOWN = Share()


@dataclass(slots=True)
class StepNumbers:
    """One step; sessions that are masked count in `masked` and `sessions` alone.

    Args:
        step: its number.
        sessions: all of them.
        masked: those that were not played.
        reward: of the sessions.
        invalid: turns whose action was invalid, of all.
        truncated: sessions that were cut.
        drift: mean absolute difference of log-probs, server and trainer, of the sessions.
        shown: sessions to which the evidence was shown, of those with known evidence.
        guessed: of these, sessions that were right without, of all that were right.
        terms: lowest and highest value of each reward term.
        groups: groups of several sessions.
        even: those in which all rewards are equal, by uid.
    """

    step: int
    sessions: int = 0
    masked: int = 0
    reward: Share = UNKNOWN
    invalid: Share = UNKNOWN
    truncated: Share = UNKNOWN
    drift: Share = UNKNOWN
    shown: Share = UNKNOWN
    guessed: Share = UNKNOWN
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
        "SELECT step, total(reward), count(reward), sum(invalid), sum(turns), sum(truncated), count(*), "
        f"total(drift), count(drift), sum(stage IN {_SHOWN}), sum(stage != ''), "
        "sum(guessed), coalesce(sum(\"right\" AND stage != ''), 0) "
        "FROM sessions WHERE split = ? AND mask = '' GROUP BY step",
        (split,),
    )
    for step, *numbers in rows:
        each, shares = found[step], [Share(*pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
        each.reward, each.invalid, each.truncated, each.drift, each.shown, each.guessed = shares
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
