"""Which questions reinforcement learning trains on: pass rates of a model, strata, rules of the papers."""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from docagent_rl.lab.collect.case import Case
from docagent_rl.lab.collect.filters import score
from docagent_rl.lab.collect.rules import QUESTIONS, Scoring

if TYPE_CHECKING:
    from rich.table import Table


class Stratum(StrEnum):
    """How hard a question is for the model."""

    EASY = "easy"
    """Right in every trajectory."""
    MEDIUM = "medium"
    HARD = "hard"
    """Right in none."""


SHARES: Mapping[Stratum, Fraction] = {
    Stratum.EASY: Fraction(10, 100),
    Stratum.MEDIUM: Fraction(70, 100),
    Stratum.HARD: Fraction(20, 100),
}
"""Of Doc-V*'s training questions."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What became of a question's trajectories.

    Args:
        question: its id.
        trajectories: that were played.
        right: of them.
        found: in one of them at least every gold page was shown.
    """

    question: str
    trajectories: int
    right: int
    found: bool

    @property
    def stratum(self) -> Stratum:
        """How hard it is."""
        if self.right == self.trajectories:
            return Stratum.EASY
        return Stratum.MEDIUM if self.right else Stratum.HARD


def rates(cases: Iterable[Case], by: Scoring, threshold: float) -> list[Rate]:
    """Pass rates of questions, in the order in which they first come.

    Args:
        cases: trajectories that were played.
        by: how an answer is scored.
        threshold: from which it is right; 0.7 for both papers' free text.
    """
    groups: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.question].append(case)
    return [
        Rate(
            question,
            len(group),
            sum(score(case, by, threshold) >= threshold for case in group),
            any(bool(case.gold) and case.gold <= case.shown for case in group),
        )
        for question, group in groups.items()
    ]


@dataclass(slots=True)
class Choice:
    """What a rule chose.

    Args:
        wanted: questions by stratum that were asked for; empty where a rule asks for none.
        there: questions by stratum.
        chosen: their ids, by stratum.
        left_out: questions that the rule does not take, by reason.
        warnings: what the rule could not keep to.
    """

    wanted: Mapping[Stratum, int]
    there: Mapping[Stratum, int]
    chosen: dict[Stratum, list[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    @property
    def questions(self) -> set[str]:
        """All that were chosen."""
        return {question for each in self.chosen.values() for question in each}

    def table(self) -> Table:
        """For the terminal."""
        from rich.table import Table

        table = Table("stratum", title=f"{len(self.questions)} questions chosen")
        for heading in ("there", "wanted", "chosen"):
            table.add_column(heading, justify="right")
        for stratum in Stratum:
            counts = (self.there.get(stratum, 0), self.wanted.get(stratum), len(self.chosen.get(stratum, ())))
            table.add_row(stratum.value, *("-" if count is None else str(count) for count in counts))
        for reason, count in sorted(self.left_out.items()):
            table.add_row(f"left out: {reason}", str(count), "", "")
        return table


def quotas(count: int, shares: Mapping[Stratum, Fraction] = SHARES) -> dict[Stratum, int]:
    """So many questions by shares: largest remainders, ties to the larger share.

    2,048 by 10 : 70 : 20 are 205, 1,434 and 409.
    """
    exact = {stratum: count * share for stratum, share in shares.items()}
    found = {stratum: math.floor(value) for stratum, value in exact.items()}
    order = sorted(
        shares, key=lambda stratum: (exact[stratum] - found[stratum], shares[stratum]), reverse=True
    )
    for stratum in order[: count - sum(found.values())]:
        found[stratum] += 1
    return found


def choose_stratified(found: Sequence[Rate], count: int = QUESTIONS, seed: int = 0) -> Choice:
    """Doc-V*'s rule: so many of each stratum, by chance.

    A stratum that holds too few is topped up from the medium one, then from the other; the medium one from
    the hard one, then from the easy one. What nobody can fill stays open, with a warning.

    Args:
        found: pass rates.
        count: of questions in all.
        seed: of the draw.
    """
    pools: dict[Stratum, list[str]] = {stratum: [] for stratum in Stratum}
    for rate in found:
        pools[rate.stratum].append(rate.question)
    wanted = quotas(count)
    choice = Choice(wanted, {stratum: len(pool) for stratum, pool in pools.items()})
    order = {s: sorted(pool, key=lambda question: _draw(question, seed)) for s, pool in pools.items()}
    choice.chosen = {stratum: order[stratum][:number] for stratum, number in wanted.items()}
    spare = {stratum: order[stratum][number:] for stratum, number in wanted.items()}
    for stratum in (Stratum.MEDIUM, Stratum.HARD, Stratum.EASY):
        lacking = wanted[stratum] - min(wanted[stratum], choice.there[stratum])
        if lacking:
            choice.warnings.append(_topped_up(choice, spare, stratum, lacking))
    return choice


def _topped_up(choice: Choice, spare: dict[Stratum, list[str]], stratum: Stratum, lacking: int) -> str:
    """Fill a stratum from others; what was done, in words."""
    told = []
    for other in (Stratum.MEDIUM, Stratum.HARD, Stratum.EASY):
        taken, spare[other] = spare[other][:lacking], spare[other][lacking:]
        if other is stratum or not taken:
            continue
        choice.chosen[other] = [*choice.chosen[other], *taken]
        lacking -= len(taken)
        told.append(f"{len(taken)} {other.value}")
    filled = f"taken instead: {' and '.join(told)}" if told else "none can be taken instead"
    there, wanted = choice.there[stratum], choice.wanted[stratum]
    rest = f"; {lacking} stay open" if lacking else ""
    return f"{stratum.value}: {wanted} questions wanted, {there} there; {filled}{rest}"


def choose_learnable(
    found: Sequence[Rate], *, preferred: Collection[str] = (), count: int | None = None, seed: int = 0
) -> Choice:
    """UniDoc-RL's rule: questions whose gold pages the model finds, and which it does not always answer.

    Args:
        found: pass rates.
        preferred: questions that come first when there are more than enough: those whose teacher's trajectory
            failed the quality filter.
        count: of questions at most.
        seed: of the draw among the others.
    """
    choice = Choice({}, Counter(rate.stratum for rate in found))
    taken = []
    for rate in found:
        if not rate.found:
            choice.left_out["gold pages never all found"] += 1
        elif rate.stratum is Stratum.EASY:
            choice.left_out["right every time"] += 1
        else:
            taken.append(rate)
    first = set(preferred)
    taken.sort(key=lambda rate: (rate.question not in first, _draw(rate.question, seed)))
    if count is not None:
        choice.left_out["more than asked for"] += max(0, len(taken) - count)
        taken = taken[:count]
    for rate in taken:
        choice.chosen.setdefault(rate.stratum, []).append(rate.question)
    choice.left_out += Counter()  # without those of which there are none
    return choice


def _draw(question: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}\0{question}".encode("utf-8", "replace")).hexdigest()
