"""Filters of trajectories: pure functions on cases, combined by a configuration."""

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
        """Return the group to which a trajectory belongs."""
        return len(case.actions) if self is Aspect.STEPS else frozenset(case.actions)


class Balance(Section):
    """Limit every group of trajectories to a multiple of the even share, by drawing from larger
    ones.

    The even share is the number of trajectories divided by the number of groups: unlike the size of
    the smallest group, it does not drop to one because of a single odd trajectory. The papers that
    balance (VRAG-RL, appendix D) give no numbers.
    """

    kind: Literal["balance"] = "balance"
    by: tuple[Aspect, ...] = Field((Aspect.STEPS,), min_length=1)
    """One or more aspects; a trajectory is kept if its group has room for it in each of them."""
    times: float = Field(2.0, ge=1)
    least: int = Field(10, ge=1)
    """A group up to this size is kept whole."""
    seed: int = 0

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Return whether each case is kept."""
        sizes = {aspect: Counter(aspect.group(case) for case in cases) for aspect in self.by}
        room = {
            aspect: max(self.least, int(self.times * len(cases) / max(len(groups), 1)))
            for aspect, groups in sizes.items()
        }
        counts: Counter[tuple[Aspect, Hashable]] = Counter()
        kept = [False] * len(cases)
        # ordered by the trajectory's own key, so that adding or removing others does not move it
        for number in sorted(
            range(len(cases)), key=lambda number: draw(self.seed, *cases[number].key)
        ):
            groups = [(aspect, aspect.group(cases[number])) for aspect in self.by]
            if all(counts[group] < room[group[0]] for group in groups):
                counts.update(groups)
                kept[number] = True
        return kept


def draw(seed: int, *key: object) -> str:
    """Return the sort key of a trajectory or a question in a random order, from its own key."""
    return hashlib.sha256("\0".join(map(str, (seed, *key))).encode("utf-8", "replace")).hexdigest()


class _Each(Section):
    """A filter that decides about each trajectory separately."""

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Return whether each case is kept."""
        return [self._keeps(case) for case in cases]

    def _keeps(self, case: Case) -> bool:
        raise NotImplementedError


class Format(_Each):
    """Every turn is well-formed and executed, the agent ended the trajectory, and its format score
    is full if the system has one.
    """

    kind: Literal["format"] = "format"

    def _keeps(self, case: Case) -> bool:
        return case.sound and case.finished


class Finished(_Each):
    """The agent ended the trajectory on its own."""

    kind: Literal["finished"] = "finished"

    def _keeps(self, case: Case) -> bool:
        return case.finished


class AnswerFilter(_Each):
    """The answer is right."""

    kind: Literal["answer"] = "answer"
    by: Scoring = Scoring.LIKENESS
    threshold: float = Field(0.7, gt=0, le=1)
    judged: bool = False
    """Free text below the threshold may still be right by the run's judge (`docagent.judge`)."""

    def _keeps(self, case: Case) -> bool:
        verdict = (case.verdict or 0.0) if self.judged else 0.0
        return max(answer_score(case, self.by, self.threshold), verdict) >= self.threshold


class EvidencePages(StrEnum):
    """The set of pages that must contain a gold page."""

    SHOWN = "shown"
    """Pages shown before the answer."""
    LISTED = "listed"
    """Pages that the agent called relevant (Doc-V*)."""


class EvidenceFilter(_Each):
    """The answer can rest on evidence: a gold page was seen before it.

    `unknown` decides about questions whose evidence is unknown. For a question without evidence (a
    refusal is right), no page may be listed.
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
    """Another model fails the question.

    UniDoc-RL (section 4.1) uses one fine-tuned on SlideVQA only, so that from other sources the
    questions that it cannot answer are kept.
    """

    kind: Literal["failed"] = "failed"
    run: Path
    """Folder of its run over the same questions (`docagent-rl eval`), or a trajectory file."""
    exempt: tuple[str, ...] = ("slidevqa",)
    """Datasets that are kept whole: those the model was trained on."""
    by: Scoring = Scoring.OUTCOME
    threshold: float = Field(0.7, gt=0, le=1)

    def _keeps(self, case: Case) -> bool:
        return case.dataset in self.exempt or bool(case.failed)


class Length(_Each):
    """The numbers of turns and images are within bounds."""

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
    """An action directly follows one of some others, e.g. a crop follows a search."""

    kind: Literal["sequel"] = "sequel"
    action: str
    after: tuple[str, ...]

    def _keeps(self, case: Case) -> bool:
        pairs = itertools.pairwise(("", *case.actions))
        return all(before in self.after for before, action in pairs if action == self.action)


class Duplicates(Section):
    """Only the first of a question's trajectories with identical texts is kept."""

    kind: Literal["duplicates"] = "duplicates"

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Return whether each case is kept."""
        first: dict[tuple[str, str], int] = {}
        places = [
            first.setdefault((case.question, case.digest), place)
            for place, case in enumerate(cases)
        ]
        return [place == own for own, place in enumerate(places)]


class First(Section):
    """Only the first trajectories of each question are kept."""

    kind: Literal["first"] = "first"
    count: int = Field(1, ge=1)

    def keep(self, cases: Sequence[Case]) -> list[bool]:
        """Return whether each case is kept."""
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
"""One filter; `keep` takes the cases that earlier filters left, in the order of the run, and
returns which stay.
"""


def is_unknown(case: Case, by: Scoring) -> bool:
    """Return whether a case's score is unknown because its environment did not judge the answer."""
    judged = case.outcome is None or case.outcome.state is not OutcomeState.UNJUDGED
    return by is Scoring.OUTCOME and not judged


def answer_score(case: Case, by: Scoring, threshold: float = 0.5) -> float:
    """Score the answer of a trajectory, 0 to 1; 0 if there is no answer, or its score `is_unknown`.

    Free-text similarities below the threshold count as 0.
    """
    if by is Scoring.OUTCOME:
        return 0.0 if case.outcome is None else case.outcome.term
    return 0.0 if case.prediction is None else case.likeness(threshold)
