"""Choosing questions for reinforcement learning: a model's pass rates, strata, and the papers'
rules.
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
    """A level of difficulty of a question for the model."""

    EASY = "easy"
    """Right in every trajectory."""
    MEDIUM = "medium"
    HARD = "hard"
    """Right in no trajectory."""


SHARES: Mapping[Stratum, int] = {Stratum.EASY: 10, Stratum.MEDIUM: 70, Stratum.HARD: 20}
"""Composition of Doc-V*'s training questions, in percent."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Counts for one question; `found`: every gold page was shown in at least one trajectory."""

    question: str
    trajectories: int
    right: int
    found: bool

    @property
    def stratum(self) -> Stratum:
        """The stratum of the question."""
        if self.right == self.trajectories:
            return Stratum.EASY
        return Stratum.MEDIUM if self.right else Stratum.HARD


def rates(cases: Iterable[Case], by: Scoring, threshold: float) -> list[Rate]:
    """Return the pass rates of questions, in the order in which they first appear.

    An answer is right if it scores `threshold` or more; both papers use 0.7 for free text.
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
    """Number of questions asked for, by stratum; empty if the rule sets none."""
    there: Mapping[Stratum, int]
    """Number of questions available, by stratum."""
    chosen: dict[Stratum, list[str]] = field(default_factory=dict)
    """Ids of the chosen questions, by stratum."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Number of questions that the rule does not take, by reason."""
    warnings: list[str] = field(default_factory=list)
    """Cases in which the rule could not be followed."""

    @property
    def questions(self) -> set[str]:
        """Ids of all chosen questions."""
        return {question for each in self.chosen.values() for question in each}

    def table(self) -> Table:
        """Return a table for the terminal."""
        table = Table("stratum", title=f"{len(self.questions)} questions chosen")
        for heading in ("available", "wanted", "chosen"):
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

    For example, 2,048 questions are divided 10 : 70 : 20 into 205, 1,434 and 409.
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
    """Choose `count` questions by Doc-V*'s rule: a random draw of a quota from each stratum.

    Quotas of a stratum with too few questions are not filled, and a warning says so.
    """
    pools: dict[Stratum, list[str]] = {stratum: [] for stratum in Stratum}
    for rate in found:
        pools[rate.stratum].append(rate.question)
    choice = ChosenQuestions(quotas(count), {stratum: len(pool) for stratum, pool in pools.items()})
    for stratum, pool in pools.items():
        wanted = choice.quotas[stratum]
        choice.chosen[stratum] = sorted(pool, key=lambda question: draw(seed, question))[:wanted]
        if len(pool) < wanted:
            choice.warnings.append(
                f"{stratum.value}: {wanted} questions wanted, but only {len(pool)} available"
            )
    return choice


def choose_learnable(
    found: Sequence[Rate],
    *,
    preferred: Collection[str] = (),
    count: int | None = None,
    seed: int = 0,
) -> ChosenQuestions:
    """Choose questions by UniDoc-RL's rule: the model finds their gold pages, but not always the
    answer.

    If there are more than `count`, the `preferred` (those whose teacher's trajectory failed the
    quality filter) come first, then others at random.
    """
    choice = ChosenQuestions({}, Counter(rate.stratum for rate in found))
    learnable = []
    for rate in found:
        if not rate.found:
            choice.left_out["no trajectory found all gold pages"] += 1
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
    choice.left_out += Counter()  # removes zeros
    return choice
