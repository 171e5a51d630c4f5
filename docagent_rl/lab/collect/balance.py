"""No kind of session crowds the others out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Sequence
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, field_validator

from docagent_rl.base.section import Section
from docagent_rl.lab.collect.case import Case


class Aspect(StrEnum):
    """By what sessions are balanced."""

    STEPS = "steps"
    """Number of turns."""
    ACTIONS = "actions"
    """Which actions occur, whatever their order and number."""

    def group(self, case: Case) -> Hashable:
        """Whom a session stands among."""
        return len(case.actions) if self is Aspect.STEPS else frozenset(case.actions)


class Balance(Section):
    """No group of sessions is larger than so many times an even share; a larger one is drawn from.

    The even share is the number of sessions by the number of groups: unlike the smallest group, it does not
    fall to one because of a single odd session. The papers that balance (VRAG-RL, appendix D) give no
    numbers.
    """

    kind: Literal["balance"] = "balance"
    by: tuple[Aspect, ...] = Field((Aspect.STEPS,), min_length=1)
    """One or several; a session stays where there is room for it by each of them."""
    times: float = Field(2.0, ge=1)
    least: int = Field(10, ge=1)
    """Groups of so many are left whole."""
    seed: int = 0

    @field_validator("by", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Which to keep."""
        sizes = {aspect: Counter(aspect.group(case) for case in cases) for aspect in self.by}
        room = {
            aspect: max(self.least, int(self.times * len(cases) / max(len(groups), 1)))
            for aspect, groups in sizes.items()
        }
        taken: Counter[tuple[Aspect, Hashable]] = Counter()
        chosen: set[int] = set()
        # in an order by the session itself: others that come or go change nothing about its place
        for number in sorted(range(len(cases)), key=lambda number: draw(cases[number], self.seed)):
            places = [(aspect, aspect.group(cases[number])) for aspect in self.by]
            if all(taken[place] < room[place[0]] for place in places):
                taken.update(places)
                chosen.add(number)
        return [number in chosen for number in range(len(cases))]


def draw(case: Case, seed: int) -> str:
    """Where a session stands in an order by chance."""
    return hashlib.sha256(f"{seed}\0{case.question}\0{case.session}".encode("utf-8", "replace")).hexdigest()
