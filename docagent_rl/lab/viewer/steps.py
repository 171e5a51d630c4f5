"""Numbers of the steps of a split, out of the index: what warnings are made of."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from docagent_rl.rollout.evidence import STAGES, Stage

_SHOWN = tuple(stage.value for stage in STAGES[STAGES.index(Stage.SHOWN) :])
_SHARES = {
    "reward": ("total(reward)", "count(reward)"),
    "invalid": ("sum(invalid)", "sum(turns)"),
    "truncated": ("sum(truncated)", "count(*)"),
    "drift": ("total(drift)", "count(drift)"),
    "shown": (f"sum(stage IN {_SHOWN})", "sum(stage != '')"),
    "guessed": ("sum(guessed)", "coalesce(sum(\"right\" AND stage != ''), 0)"),
}
"""Sum and count of each share in SQL."""
_PLAYED = "FROM trajectories WHERE split = ? AND mask = ''"


class Share(NamedTuple):
    """A sum and the count it is over, which is 0 where nothing is known."""

    total: float = 0
    count: int = 0

    @property
    def mean(self) -> float:
        """The ratio."""
        return self.total / self.count

    def __str__(self) -> str:
        return f"{self.total:g} of {self.count}"


@dataclass(slots=True)
class StepNumbers:
    """One step; trajectories that are masked count in `masked` and `trajectories` alone.

    Args:
        step: its number.
        trajectories: all of them.
        masked: those that were not played.
        shares: by name. `reward`, `drift` (mean absolute difference of log-probs, server and trainer) and
            `truncated` are over trajectories, `invalid` over turns, `shown` over trajectories of known
            evidence, and `guessed` over those of them that were right.
        terms: lowest and highest value of each reward term.
        groups: groups of several trajectories.
        even: uids of those in which all rewards are equal.
    """

    step: int
    trajectories: int = 0
    masked: int = 0
    shares: dict[str, Share] = field(default_factory=dict)
    terms: dict[str, tuple[float, float]] = field(default_factory=dict)
    groups: int = 0
    even: list[str] = field(default_factory=list)


def pooled(steps: Iterable[StepNumbers], name: str) -> Share:
    """Return a share over several steps, as if they were one: none weighs more than it has."""
    found = [step.shares.get(name, Share()) for step in steps]
    return Share(sum(each.total for each in found), sum(each.count for each in found))


def step_numbers(base: sqlite3.Connection, split: str) -> list[StepNumbers]:
    """Return the steps of a split, in order."""
    found = {
        step: StepNumbers(step, trajectories, masked)
        for step, trajectories, masked in base.execute(
            "SELECT step, count(*), sum(mask != '') FROM trajectories WHERE split = ? "
            "GROUP BY step ORDER BY step",
            (split,),
        )
    }
    columns = ", ".join(f"{total}, {count}" for total, count in _SHARES.values())
    for step, *numbers in base.execute(f"SELECT step, {columns} {_PLAYED} GROUP BY step", (split,)):
        shares = map(Share, numbers[::2], numbers[1::2])
        found[step].shares = dict(zip(_SHARES, shares, strict=True))
    for step, name, low, high in base.execute(
        "SELECT step, name, min(value), max(value) FROM terms JOIN trajectories ON terms.trajectory = id "
        "WHERE split = ? AND mask = '' GROUP BY step, name",
        (split,),
    ):
        found[step].terms[name] = low, high
    for step, uid, low, high in base.execute(
        f"SELECT step, uid, min(reward), max(reward) {_PLAYED} "
        "GROUP BY step, uid HAVING count(*) > 1 ORDER BY step, uid",
        (split,),
    ):
        found[step].groups += 1
        found[step].even += [uid] if low == high else []
    return list(found.values())
