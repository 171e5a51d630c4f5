"""Scoring of short answers: edit distance for text, exact match for identifiers.

This is Doc-V*'s answer term (appendix C); `collect` uses it to compare answers with references.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from scipy.optimize import linear_sum_assignment

from docagent_rl.rewards.answer_kinds import AnswerKind, IdentifierRule, kind_of, norm_id
from docagent_rl.rewards.text import anls

ABSTENTIONS = (
    "not answerable",
    "unanswerable",
    "not answerable from the document",
    "n/a",
    "none",
    "unknown",
)
"""Answers that decline to answer; prompts ask for the first one."""

_ITEM_ENDS = re.compile(r"[;\r\n]+")


class GoldForm(Enum):
    """The way in which several gold answers are meant."""

    VARIANTS = "variants"
    """Each of them is a right answer."""
    LIST = "list"
    """All of them together are the answer."""
    ABSTENTION = "abstention"
    """The document does not answer the question."""


@dataclass(frozen=True, slots=True)
class Gold:
    """The right answers of a question.

    Args:
        form: how the texts are meant.
        texts: the gold texts; empty for an abstention.
    """

    form: GoldForm
    texts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """The rule by which answers are scored.

    Args:
        threshold: a similarity of free text below this value counts as 0 (tau in the paper).
        identifiers: which kinds of answers must match exactly.
        abstentions: the phrases that count as declining to answer.
    """

    threshold: float = 0.5
    identifiers: IdentifierRule = IdentifierRule.ALL
    abstentions: tuple[str, ...] = ABSTENTIONS

    def abstains(self, text: str) -> bool:
        """Return whether a text is one of `abstentions`.

        Case, whitespace and surrounding punctuation are ignored.
        """
        return _bare(text) in {_bare(phrase) for phrase in self.abstentions}

    def score(self, prediction: str | None, gold: Gold) -> float:
        """Return R_a, in [0, 1].

        - No answer, or a blank one: 0.
        - A prediction that abstains: 1 if the gold abstains too, else 0.
        - Variants: the best score over the gold texts.
        - A list: the prediction is split at semicolons and line breaks; the score is the sum of the
          best one-to-one matching of items, divided by the length of the longer list. The paper
          does not mention lists.
        """
        if prediction is None or not prediction.strip():
            return 0.0
        match gold.form:
            case GoldForm.ABSTENTION:
                return float(self.abstains(prediction))
            case GoldForm.VARIANTS:
                return max((self._score_text(prediction, text) for text in gold.texts), default=0.0)
            case GoldForm.LIST:
                return self._score_list(prediction, gold.texts)

    def _score_text(self, prediction: str, gold: str) -> float:
        if self.abstains(gold) or self.abstains(prediction):
            return float(self.abstains(gold) and self.abstains(prediction))
        kind = kind_of(gold, self.identifiers)
        if kind is AnswerKind.TEXT:
            return anls(_single_spaced(gold), _single_spaced(prediction), self.threshold)
        return float(norm_id(kind, prediction) == norm_id(kind, gold))

    def _score_list(self, prediction: str, golds: tuple[str, ...]) -> float:
        items = [item.strip() for item in _ITEM_ENDS.split(prediction) if item.strip()]
        if not items or self.abstains(prediction):
            return 0.0
        # score equal items only once, however often a policy repeats them
        scores = {item: [self._score_text(item, gold) for gold in golds] for item in items}
        return best_matching([scores[item] for item in items]) / max(len(items), len(golds))


def best_matching(scores: Sequence[Sequence[float]]) -> float:
    """Return the largest total score of a one-to-one matching of rows and columns, of shape (n, m).

    Raises:
        ValueError: a score is negative or not finite.
    """
    table = np.asarray(scores)
    if not table.size:
        return 0.0
    if (table < 0).any():
        raise ValueError("scores must not be negative")
    return float(table[linear_sum_assignment(table, maximize=True)].sum())


def _bare(text: str) -> str:
    folded = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return folded.strip(" .,;:!?\"'()[]*")


def _single_spaced(text: str) -> str:
    return " ".join(text.split())
