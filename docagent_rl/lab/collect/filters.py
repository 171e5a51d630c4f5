"""Filters of trajectories: pure functions over cases, put together by a configuration."""

import hashlib
import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.lab.collect.case import Case
from docagent_rl.lab.collect.rules import Scoring


class Aspect(StrEnum):
    """The property by which trajectories are balanced."""

    STEPS = "steps"
    """Number of turns."""
    ACTIONS = "actions"
    """The set of actions."""

    def group(self, case: Case) -> Hashable:
        """Return the group of a trajectory."""
        return len(case.actions) if self is Aspect.STEPS else frozenset(case.actions)


class Balance(Section):
    """No group of trajectories is larger than so many times an even share; a larger one is drawn
    from.

    The even share is the number of trajectories by the number of groups: unlike the smallest group,
    it does not fall to one because of a single odd trajectory. The papers that balance (VRAG-RL,
    appendix D) give no numbers.
    """

    kind: Literal["balance"] = "balance"
    by: tuple[Aspect, ...] = Field((Aspect.STEPS,), min_length=1)
    """One or several; a trajectory stays where there is room for it by each of them."""
    times: float = Field(2.0, ge=1)
    least: int = Field(10, ge=1)
    """Groups of so many are left whole."""
    seed: int = 0

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Say of each case whether it is kept."""
        sizes = {aspect: Counter(aspect.group(case) for case in cases) for aspect in self.by}
        room = {
            aspect: max(self.least, int(self.times * len(cases) / max(len(groups), 1)))
            for aspect, groups in sizes.items()
        }
        counts: Counter[tuple[Aspect, Hashable]] = Counter()
        kept = [False] * len(cases)
        # in an order by the trajectory itself: others that come or go change nothing about its
        # place
        for number in sorted(
            range(len(cases)), key=lambda number: draw(self.seed, *cases[number].key)
        ):
            groups = [(aspect, aspect.group(cases[number])) for aspect in self.by]
            if all(counts[group] < room[group[0]] for group in groups):
                counts.update(groups)
                kept[number] = True
        return kept


def draw(seed: int, *key: object) -> str:
    """Return the place of a trajectory or a question, by its key, in an order by chance."""
    return hashlib.sha256("\0".join(map(str, (seed, *key))).encode("utf-8", "replace")).hexdigest()


class _Each(Section):
    """A filter that looks at each trajectory by itself."""

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Say of each case whether it is kept."""
        return [self._keeps(case) for case in cases]

    def _keeps(self, case: Case) -> bool:
        raise NotImplementedError


class Format(_Each):
    """Every turn well-formed and executed, and the trajectory's form in order where the system
    scores it.
    """

    kind: Literal["format"] = "format"

    def _keeps(self, case: Case) -> bool:
        return case.sound and case.finished


class Finished(_Each):
    """The agent ended the trajectory by itself."""

    kind: Literal["finished"] = "finished"

    def _keeps(self, case: Case) -> bool:
        return case.finished


class AnswerFilter(_Each):
    """The answer is right."""

    kind: Literal["answer"] = "answer"
    by: Scoring = Scoring.LIKENESS
    threshold: float = Field(0.7, gt=0, le=1)
    judged: bool = False
    """Free text that does not reach it may be right by the run's judge (`docagent.judge`)."""

    def _keeps(self, case: Case) -> bool:
        verdict = (case.verdict or 0.0) if self.judged else 0.0
        return max(answer_score(case, self.by, self.threshold), verdict) >= self.threshold


class EvidencePages(StrEnum):
    """The pages of which one has to be gold."""

    SHOWN = "shown"
    """Those that were shown before the answer."""
    LISTED = "listed"
    """Those that the agent called relevant (Doc-V*)."""


class EvidenceFilter(_Each):
    """The answer can rest on evidence: a gold page was seen before it.

    Trajectories of questions whose evidence is unknown are kept as `unknown` says; of a question
    that has none (a refusal is right) no page may be listed.
    """

    kind: Literal["evidence"] = "evidence"
    pages: EvidencePages = EvidencePages.SHOWN
    unknown: bool = True

    def _keeps(self, case: Case) -> bool:
        if case.gold is None:
            return self.unknown
        found = (case.listed or frozenset()) if self.pages is EvidencePages.LISTED else case.shown
        if not case.gold:
            return not (self.pages is EvidencePages.LISTED and found)
        return bool(case.gold & found)


class Failed(_Each):
    """Another model fails the question (UniDoc-RL, section 4.1: one fine-tuned on the SlideVQA part
    alone, so that of other sources what it cannot do is kept).
    """

    kind: Literal["failed"] = "failed"
    run: Path
    """Folder of its run over the same questions (`docagent-rl eval`), or a file of trajectories."""
    exempt: tuple[str, ...] = ("slidevqa",)
    """Datasets that are kept whole: what it learned from."""
    by: Scoring = Scoring.OUTCOME
    threshold: float = Field(0.7, gt=0, le=1)

    def _keeps(self, case: Case) -> bool:
        return case.dataset in self.exempt or bool(case.failed)


class Length(_Each):
    """Turns and images within bounds."""

    kind: Literal["length"] = "length"
    least_turns: int = Field(1, ge=0)
    most_turns: int | None = Field(None, ge=1)
    most_images: int | None = Field(None, ge=0)

    def _keeps(self, case: Case) -> bool:
        turns = self.most_turns
        images = self.most_images
        if images is not None and case.images > images:
            return False
        return self.least_turns <= len(case.actions) and (
            turns is None or len(case.actions) <= turns
        )


class Sequel(_Each):
    """An action comes directly after one of some others, e.g. a crop after a search."""

    kind: Literal["sequel"] = "sequel"
    action: str
    after: tuple[str, ...]

    def _keeps(self, case: Case) -> bool:
        pairs = itertools.pairwise(("", *case.actions))
        return all(before in self.after for before, action in pairs if action == self.action)


class Duplicates(Section):
    """The first of trajectories of a question with the same texts."""

    kind: Literal["duplicates"] = "duplicates"

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Say of each case whether it is kept."""
        first: dict[tuple[str, str], int] = {}
        places = [
            first.setdefault((case.question, case.digest), place)
            for place, case in enumerate(cases)
        ]
        return [place == own for own, place in enumerate(places)]


class First(Section):
    """The first trajectories of each question."""

    kind: Literal["first"] = "first"
    count: int = Field(1, ge=1)

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Say of each case whether it is kept."""
        seen: Counter[str] = Counter()
        kept = []
        for case in cases:
            seen[case.question] += 1
            kept.append(seen[case.question] <= self.count)
        return kept


Filter = Annotated[
    Format
    | Finished
    | AnswerFilter
    | EvidenceFilter
    | Failed
    | Length
    | Sequel
    | Duplicates
    | First
    | Balance,
    Field(discriminator="kind"),
]
"""One step; `keep` takes what the steps before left, in the order of the run, and says which
stay.
"""


def is_unknown(case: Case, by: Scoring) -> bool:
    """Return whether there is an answer whose score nobody knows, since its environment did not
    judge it.
    """
    judged = case.outcome is None or case.outcome.state is not OutcomeState.UNJUDGED
    return by is Scoring.OUTCOME and not judged


def answer_score(case: Case, by: Scoring, threshold: float = 0.5) -> float:
    """Score the answer of a trajectory, 0 to 1; 0 without an answer, or where its score
    `is_unknown`.

    Similarities of free text below the threshold count as 0.
    """
    if by is Scoring.OUTCOME:
        return 0.0 if case.outcome is None else case.outcome.term
    return 0.0 if case.prediction is None else case.likeness(threshold)
