"""The reward of MM-Doc-R1 (section 3.2.3): recall of the pages that were read, plus correctness."""

from collections.abc import Collection, Sequence
from enum import StrEnum

from pydantic import Field

from docagent_rl.base.section import Section
from docagent_rl.rewards.formula import Formula
from docagent_rl.rewards.mmlongbench import AnswerFormat, answer_rightness
from docagent_rl.rewards.retrieval import recall
from docagent_rl.rewards.text import NOT_ANSWERABLE

TERMS = ("page_recall", "correctness", "total")
"""The reward terms, unweighted, and their weighted sum."""


class PageTerm(StrEnum):
    """The score of the pages that were read."""

    RECALL = "recall"
    """The share of evidence pages that were read (the paper)."""
    F1 = "f1"
    """The harmonic mean of recall and precision, the share of read pages that are evidence."""


class EmptyEvidence(StrEnum):
    """The page term of a question without evidence pages.

    `one` and `zero` are constant within a group, so they cancel in every advantage. `correctness`
    makes the reward twice the correctness.
    """

    ONE = "one"
    ZERO = "zero"
    CORRECTNESS = "correctness"


class MMDocReward(Section):
    """The reward, `pages * page term + correctness * correctness` (section 3.2.3)."""

    pages: float = Field(ge=0, allow_inf_nan=False)
    """Weight of the page term; 0 rewards answers only."""
    correctness: float = Field(ge=0, allow_inf_nan=False)
    """Weight of the correctness; 0 rewards reading only."""
    page_term: PageTerm = PageTerm.RECALL
    empty_evidence: EmptyEvidence = EmptyEvidence.ONE
    """The page term of questions without evidence pages, such as unanswerable ones."""

    @property
    def formula(self) -> Formula:
        """The total of the terms, each in `[0, 1]`; both weights are 1 in the paper."""
        return Formula({"page_recall": self.pages, "correctness": self.correctness})

    def page_score(
        self, read: Collection[int], evidence: Collection[int], correctness: float
    ) -> float:
        """Return the page term, in `[0, 1]`; a page that was read repeatedly counts once."""
        if not evidence:
            match self.empty_evidence:
                case EmptyEvidence.ONE:
                    return 1.0
                case EmptyEvidence.ZERO:
                    return 0.0
                case EmptyEvidence.CORRECTNESS:
                    return correctness
        return (
            page_f1(read, evidence)
            if self.page_term is PageTerm.F1
            else recall(read, evidence) or 0.0
        )


def page_f1(read: Collection[int], evidence: Collection[int]) -> float:
    """Return `2 |P and E| / (|P| + |E|)`, in `[0, 1]`; 0 if both sets are empty."""
    pages = set(read)
    wanted = set(evidence)
    both = len(pages) + len(wanted)
    return 2 * len(pages & wanted) / both if both else 0.0


def correctness(answers: Sequence[str], prediction: str, answer_format: AnswerFormat) -> float:
    """Score the extracted answer with MMLongBench-Doc's scorer, in `[0, 1]`.

    The best score over the answers counts; for a list, the answers are its items. Without answers
    the question is unanswerable, and the prediction is compared with the text `NOT_ANSWERABLE`.
    """
    if not answers:
        return answer_rightness(NOT_ANSWERABLE, prediction, AnswerFormat.NONE)
    if answer_format is AnswerFormat.LIST:
        return answer_rightness(answers, prediction, answer_format)
    return max(answer_rightness(answer, prediction, answer_format) for answer in answers)
