"""Scoring a boxed answer against its references (ALDEN, section 4.2, and its released reward function)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.retrieval.tokens import UNSPACED
from docagent_rl.rewards.text import NOT_ANSWERABLE, anls, squad_normalise

REFUSAL = "The problem is not answerable"
"""The sentence with which the agent refuses, and the reference where that is right."""

_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_POLAR = frozenset({"yes", "no", "noanswer"})


class AnswerMetric(StrEnum):
    """How alike two answers are, in `[0, 1]`."""

    CHAR_F1 = "char_f1"
    """F1 over characters without spaces (the paper). Blind to order: `42` and `24` are the same to it."""
    WORD_F1 = "word_f1"
    """F1 over words (the released code)."""
    ANLS = "anls"
    """Edit distance, 0 below one half."""


class ListScoring(StrEnum):
    """How a reference of several items, joined by `;`, is scored."""

    JOINED = "joined"
    """As one text."""
    ITEMS = "items"
    """F1 over items, each right or wrong as a whole."""


@dataclass(frozen=True, slots=True)
class AnswerRule:
    """How answers are scored.

    Args:
        metric: for references without a digit.
        numeric_metric: for references with one.
        lists: for references of several items.
        polar_exact: yes, no and noanswer on either side count only when both sides are the same.
    """

    metric: AnswerMetric
    numeric_metric: AnswerMetric
    lists: ListScoring = ListScoring.JOINED
    polar_exact: bool = False

    def score(self, prediction: str, references: Sequence[str]) -> float:
        """Return the best score over the references, in `[0, 1]`; 0 when nothing is left of an answer."""
        return max((self._one(prediction, reference) for reference in references), default=0.0)

    def _one(self, prediction: str, reference: str) -> float:
        if self.polar_exact and _polar_mismatch(prediction, reference):
            return 0.0
        if self.lists is ListScoring.ITEMS and len(_items(reference)) > 1:
            return _f1(_items(prediction), _items(reference))
        return similarity(
            self.numeric_metric if is_numeric(reference) else self.metric, prediction, reference
        )


def similarity(metric: AnswerMetric, prediction: str, reference: str) -> float:
    """Return one metric on one pair, in `[0, 1]`."""
    match metric:
        case AnswerMetric.CHAR_F1:
            return char_f1(prediction, reference)
        case AnswerMetric.WORD_F1:
            return word_f1(prediction, reference)
        case AnswerMetric.ANLS:
            return anls(reference, prediction)


def char_f1(prediction: str, reference: str) -> float:
    """Return the F1 over characters without spaces after SQuAD's normalisation, with multiplicity (Eq. 3)."""
    return _f1(_characters(prediction), _characters(reference))


def word_f1(prediction: str, reference: str) -> float:
    """Return the F1 over words after SQuAD's normalisation, with multiplicity (released code).

    In scripts that are written without spaces every character is a word.
    """
    return _f1(_words(prediction), _words(reference))


def is_numeric(reference: str) -> bool:
    """Return whether a reference holds a digit, so that the order of its characters decides what it says."""
    return any(character.isdigit() for character in reference)


def is_refusal(text: str) -> bool:
    """Return whether a text holds the refusal sentence, up to case, punctuation and articles."""
    return squad_normalise(REFUSAL) in squad_normalise(text)


def as_refusal(reference: str) -> str:
    """Return a reference in ALDEN's words: the canonical "not answerable" becomes the refusal sentence."""
    return REFUSAL if squad_normalise(reference) == squad_normalise(NOT_ANSWERABLE) else reference


def _characters(text: str) -> Counter[str]:
    return Counter(squad_normalise(text).replace(" ", ""))


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(squad_normalise(text)))


def _items(text: str) -> Counter[str]:
    return Counter({item: 1 for item in map(squad_normalise, text.split(";")) if item})


def _polar_mismatch(prediction: str, reference: str) -> bool:
    sides = squad_normalise(prediction), squad_normalise(reference)
    return sides[0] != sides[1] and not _POLAR.isdisjoint(sides)


def _f1(prediction: Counter[str], reference: Counter[str]) -> float:
    common = (prediction & reference).total()
    # 2PR / (P + R), in the form that needs no case for empty sides
    return 2 * common / (prediction.total() + reference.total()) if common else 0.0
