"""The questions that reinforcement learning trains on: pass rates of a model, strata, rules of the
papers.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rich.table import Table

from docagent_rl.lab.collect.case import Case
from docagent_rl.lab.collect.filters import answer_score, draw
from docagent_rl.lab.collect.rules import QUESTIONS, Scoring


class Stratum(StrEnum):
    """The difficulty of a question for the model."""

    EASY = "easy"
    """Right in every trajectory."""
    MEDIUM = "medium"
    HARD = "hard"
    """Right in none."""


SHARES: Mapping[Stratum, int] = {Stratum.EASY: 10, Stratum.MEDIUM: 70, Stratum.HARD: 20}
"""Percent of Doc-V*'s training questions."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Counts of a question's trajectories; `found`: in one at least every gold page was shown."""

    question: str
    trajectories: int
    right: int
    found: bool

    @property
    def stratum(self) -> Stratum:
        """The difficulty of the question."""
        if self.right == self.trajectories:
            return Stratum.EASY
        return Stratum.MEDIUM if self.right else Stratum.HARD


def rates(cases: Iterable[Case], by: Scoring, threshold: float) -> list[Rate]:
    """Return pass rates of questions, in the order in which they first come.

    An answer is right from `threshold` on; 0.7 for both papers' free text.
    """
    groups: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.question].append(case)
    return [
        Rate(
            question,
            len(group),
            sum(answer_score(case, by, threshold) >= threshold for case in group),
            any(bool(case.gold) and case.gold <= case.shown for case in group),
        )
        for question, group in groups.items()
    ]


@dataclass(slots=True)
class ChosenQuestions:
    """The questions that a rule chose."""

    quotas: Mapping[Stratum, int]
    """Questions by stratum that were asked for; empty where a rule asks for none."""
    there: Mapping[Stratum, int]
    """Questions by stratum."""
    chosen: dict[Stratum, list[str]] = field(default_factory=dict)
    """Ids by stratum."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Questions that the rule does not take, by reason."""
    warnings: list[str] = field(default_factory=list)
    """Places where the rule could not be kept."""

    @property
    def questions(self) -> set[str]:
        """Ids of all that were chosen."""
        return {question for each in self.chosen.values() for question in each}

    def table(self) -> Table:
        """Return a table for the terminal."""
        table = Table("stratum", title=f"{len(self.questions)} questions chosen")
        for heading in ("there", "wanted", "chosen"):
            table.add_column(heading, justify="right")
        for stratum in Stratum:
            counts = (
                self.there.get(stratum, 0),
                self.quotas.get(stratum),
                len(self.chosen.get(stratum, ())),
            )
            table.add_row(
                stratum.value, *("-" if count is None else str(count) for count in counts)
            )
        for reason, count in sorted(self.left_out.items()):
            table.add_row(f"left out: {reason}", str(count), "", "")
        return table


def quotas(count: int) -> dict[Stratum, int]:
    """Divide a number of questions by `SHARES`: largest remainders, ties to the larger share.

    2,048 by 10 : 70 : 20 are 205, 1,434 and 409.
    """
    found = {stratum: count * share // 100 for stratum, share in SHARES.items()}
    order = sorted(
        SHARES, key=lambda each: (count * SHARES[each] % 100, SHARES[each]), reverse=True
    )
    for stratum in order[: count - sum(found.values())]:
        found[stratum] += 1
    return found


def choose_stratified(
    found: Sequence[Rate], count: int = QUESTIONS, seed: int = 0
) -> ChosenQuestions:
    """Choose `count` questions by Doc-V*'s rule: so many of each stratum, by chance.

    What a stratum that holds too few cannot fill stays open, with a warning.
    """
    pools: dict[Stratum, list[str]] = {stratum: [] for stratum in Stratum}
    for rate in found:
        pools[rate.stratum].append(rate.question)
    choice = ChosenQuestions(quotas(count), {stratum: len(pool) for stratum, pool in pools.items()})
    for stratum, pool in pools.items():
        wanted = choice.quotas[stratum]
        choice.chosen[stratum] = sorted(pool, key=lambda question: draw(seed, question))[:wanted]
        if len(pool) < wanted:
            choice.warnings.append(f"{stratum.value}: {wanted} questions wanted, {len(pool)} there")
    return choice


def choose_learnable(
    found: Sequence[Rate],
    *,
    preferred: Collection[str] = (),
    count: int | None = None,
    seed: int = 0,
) -> ChosenQuestions:
    """Choose by UniDoc-RL's rule: questions whose gold pages the model finds, and not always
    answers.

    Where there are more than `count`, the `preferred` come first (those whose teacher's trajectory
    failed the quality filter), then others by chance.
    """
    choice = ChosenQuestions({}, Counter(rate.stratum for rate in found))
    learnable = []
    for rate in found:
        if not rate.found:
            choice.left_out["gold pages never all found"] += 1
        elif rate.stratum is Stratum.EASY:
            choice.left_out["right every time"] += 1
        else:
            learnable.append(rate)
    first = set(preferred)
    learnable.sort(key=lambda rate: (rate.question not in first, draw(seed, rate.question)))
    if count is not None:
        choice.left_out["more than asked for"] += max(0, len(learnable) - count)
        learnable = learnable[:count]
    for rate in learnable:
        choice.chosen.setdefault(rate.stratum, []).append(rate.question)
    choice.left_out += Counter()  # drops zeros
    return choice
