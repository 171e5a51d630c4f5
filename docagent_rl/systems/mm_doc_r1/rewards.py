"""The reward of MM-Doc-R1 (section 3.2.3): recall of the pages that were read, plus correctness."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.rewards.formula import Formula
from docagent_rl.rewards.mmlongbench import AnswerFormat, score
from docagent_rl.rewards.retrieval import recall
from docagent_rl.rewards.text import NOT_ANSWERABLE


class PageTerm(StrEnum):
    """How the pages that were read are scored."""

    RECALL = "recall"
    """Share of the evidence pages that were read (the paper)."""
    F1 = "f1"
    """Harmonic mean of that share and the share of read pages that are evidence."""


class EmptyEvidence(StrEnum):
    """What the page term is for a question without evidence pages.

    `one` and `zero` are constant within a group, so that they cancel from every advantage; `correctness`
    makes the reward twice the correctness.
    """

    ONE = "one"
    ZERO = "zero"
    CORRECTNESS = "correctness"


@dataclass(frozen=True, slots=True)
class MMDocReward:
    """`R = recall + correctness`, in `[0, 2]` with the paper's weights of 1.

    Args:
        pages_weight: weight of the page term; 0 rewards answers only.
        correctness_weight: weight of the correctness; 0 rewards reading only.
        page_term: how pages are scored.
        empty_evidence: the page term of questions without evidence.

    Raises:
        ValueError: a weight is negative or not finite.
    """

    pages_weight: float = 1.0
    correctness_weight: float = 1.0
    page_term: PageTerm = PageTerm.RECALL
    empty_evidence: EmptyEvidence = EmptyEvidence.ONE

    def __post_init__(self) -> None:
        for weight in (self.pages_weight, self.correctness_weight):
            if not (math.isfinite(weight) and weight >= 0):
                raise ValueError(f"weights must be finite and not negative, found {weight}")

    @property
    def formula(self) -> Formula:
        """How the terms make the total."""
        return Formula({"page_recall": self.pages_weight, "correctness": self.correctness_weight})

    def pages(self, read: Collection[int], evidence: Collection[int], correctness: float) -> float:
        """The page term.

        Args:
            read: pages of all executed read entries, each counted once.
            evidence: evidence pages of the question.
            correctness: of the answer; what `EmptyEvidence.CORRECTNESS` takes.

        Returns:
            A value in `[0, 1]`.
        """
        if not evidence:
            match self.empty_evidence:
                case EmptyEvidence.ONE:
                    return 1.0
                case EmptyEvidence.ZERO:
                    return 0.0
                case EmptyEvidence.CORRECTNESS:
                    return correctness
        return page_f1(read, evidence) if self.page_term is PageTerm.F1 else recall(read, evidence) or 0.0

    def total(self, *, pages: float, correctness: float) -> float:
        """The reward of an episode from its two terms."""
        return self.formula.total({"page_recall": pages, "correctness": correctness})


def page_f1(read: Collection[int], evidence: Collection[int]) -> float:
    """`2 |P and E| / (|P| + |E|)`, in `[0, 1]`; 0 when both are empty."""
    pages, wanted = set(read), set(evidence)
    both = len(pages) + len(wanted)
    return 2 * len(pages & wanted) / both if both else 0.0


def correctness(answers: Sequence[str], prediction: str, answer_format: AnswerFormat) -> float:
    """How right the extracted answer is (MMLongBench-Doc's scorer).

    Args:
        answers: right answers, any of which counts; for a list its items; none at all when the document does
            not hold the answer, which is then compared with `NOT_ANSWERABLE` as text.
        prediction: the extracted answer.
        answer_format: format of the right answers.

    Returns:
        A value in `[0, 1]`.
    """
    if not answers:
        return score(NOT_ANSWERABLE, prediction, AnswerFormat.NONE)
    if answer_format is AnswerFormat.LIST:
        return score(answers, prediction, answer_format)
    return max(score(answer, prediction, answer_format) for answer in answers)
