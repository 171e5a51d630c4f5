"""The rewards of ALDEN (arXiv 2510.25668, section 4.2, Eq. 2 to 5) and of its released code: turns,
answers, repeated words of queries.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from docagent_rl.actions.base import Span
from docagent_rl.base.section import Section
from docagent_rl.retrieval.tokens import MARK, UNSPACED, Stemmer, Tokenizer, spans
from docagent_rl.rewards.formula import Formula, Gate
from docagent_rl.rewards.text import NOT_ANSWERABLE, anls, squad_normalise

TERMS = (
    "format",
    "search",
    "fetch",
    "fetch_repetition",
    "fetch_failed",
    "answer",
    "wrong_refusal",
    "missed_refusal",
    "query_repetition",
    "total",
)
"""The terms of a turn by name; `AldenReward.formula` says what each is."""


class SearchCredit(StrEnum):
    """The reward of a search."""

    PRECISION = "precision"
    """The share of gold pages among those returned, on every repeat again (the paper)."""
    NEW_GOLD = "new_gold"
    """The number of gold pages that were not shown before (the released code)."""


class FetchCredit(StrEnum):
    """The reward of a fetch."""

    PROXIMITY = "proximity"
    """`exp(-mean distance)` to the gold pages (the paper)."""
    GOLD_OR_NEAR = "gold_or_near"
    """1 for a gold page, else `0.3 * exp(-mean distance / 2)` (the released code)."""


class DroppedCall(StrEnum):
    """The treatment of a call whose pages did not fit, so that it ended the trajectory."""

    FAILED = "failed"
    """It found nothing: no credit for a search, the penalty of a failed fetch."""
    FORMAT = "format"
    """It was the last turn and no answer, so it is malformed (the released code)."""


class AldenReward(Section):
    """Weights and rules of the turn reward `r = f + u` (section 4.2).

    A failed fetch costs 0.5 as released; the paper is silent.
    """

    alpha: float = Field(5.0, ge=0, allow_inf_nan=False)
    """Weight of the answer score."""
    search: SearchCredit
    fetch: FetchCredit
    eta_fetch: float = Field(ge=0, allow_inf_nan=False)
    """Penalty of a fetch that repeats a page, in the form it was shown in."""
    failed_fetch: float = Field(0.5, ge=0, allow_inf_nan=False)
    """Penalty of a fetch that led to no page."""
    wrong_refusal: float = Field(ge=0, allow_inf_nan=False)
    """Penalty of refusing a question that has an answer; 0 leaves it to the answer score."""
    missed_refusal: float = Field(ge=0, allow_inf_nan=False)
    """Penalty of answering a question that has none; 0 leaves it to the answer score."""
    unanswerable: bool
    """Reward and charge calls for questions without an answer; their set of gold pages is empty."""
    calls: bool = True
    """Reward and charge calls at all; without it, format and answer remain (outcome reward
    only).
    """
    dropped_call: DroppedCall
    """The reward of a call whose pages did not fit, so that it ended the trajectory."""

    @property
    def formula(self) -> Formula:
        """The reward of a turn from its terms: `f + u`, and -1 for a malformed turn whatever its
        utility.

        `format` is 0 or -1; `search`, `fetch` and `answer` are credits; `fetch_repetition`,
        `fetch_failed`, `wrong_refusal` and `missed_refusal` are 0 or 1. The query term is charged
        on its tokens instead.
        """
        weights = {
            "format": 1.0,
            "search": 1.0 * self.calls,
            "fetch": 1.0 * self.calls,
            "fetch_repetition": -self.eta_fetch * self.calls,
            "fetch_failed": -self.failed_fetch * self.calls,
            "answer": self.alpha,
            "wrong_refusal": -self.wrong_refusal,
            "missed_refusal": -self.missed_refusal,
        }
        return Formula(weights, Gate("format", above=-1.0, otherwise=-1.0), turnwise=True)

    def search_credit(
        self, found: Collection[int], gold: Collection[int], seen: Collection[int]
    ) -> float:
        """Return the credit of a search that showed `found`; `seen` were shown before, in either
        form.
        """
        if self.search is SearchCredit.NEW_GOLD:
            return float(len(set(found) & set(gold) - set(seen)))
        pages = set(found)
        # |C ∩ G| / |C| (Eq. 3)
        return len(pages & set(gold)) / len(pages) if pages else 0.0

    def fetch_credit(self, page: int, gold: Collection[int]) -> float:
        """Return the credit of fetching a page, in `[0, 1]`; 0 when nothing is gold."""
        if not gold:
            return 0.0
        pages = set(gold)
        distance = sum(abs(page - other) for other in pages) / len(pages)
        if self.fetch is FetchCredit.PROXIMITY:
            return math.exp(-distance)
        return 1.0 if page in gold else 0.3 * math.exp(-0.5 * distance)

    def answer_terms(
        self, score: float, *, refused: bool, answerable: bool, refusal_is_right: bool
    ) -> dict[str, float]:
        """Return the terms of a well-formed answer; `score` is its likeness to the references, in
        `[0, 1]`.

        Where some reference is the refusal sentence and others are not, the score decides.
        """
        if self.wrong_refusal and answerable and refused and not refusal_is_right:
            return {"wrong_refusal": 1.0}
        if self.missed_refusal and not answerable and not refused:
            return {"missed_refusal": 1.0}
        return {"answer": score}


REFUSAL = "The problem is not answerable"
"""The sentence with which the agent refuses, and the reference where that is right."""

_STEMMER = Tokenizer(Stemmer.ENGLISH)
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_POLAR = frozenset({"yes", "no", "noanswer"})


class AnswerMetric(StrEnum):
    """A likeness of two answers, in `[0, 1]`."""

    CHAR_F1 = "char_f1"
    """F1 over characters without spaces (the paper). Blind to order: `42` and `24` are the same to
    it.
    """
    WORD_F1 = "word_f1"
    """F1 over words (the released code)."""
    ANLS = "anls"
    """Edit distance, 0 below one half."""


@dataclass(frozen=True, slots=True)
class AldenAnswerRule:
    """The scoring of answers.

    Args:
        metric: for references without a digit.
        numeric_metric: for references with one.
        polar_exact: yes, no and noanswer on either side count only when both sides are the same.
    """

    metric: AnswerMetric
    numeric_metric: AnswerMetric
    polar_exact: bool = False

    def score(self, prediction: str, references: Sequence[str]) -> float:
        """Return the best score over the references, in `[0, 1]`; 0 when nothing is left of an
        answer.
        """
        return max((self._one(prediction, reference) for reference in references), default=0.0)

    def _one(self, prediction: str, reference: str) -> float:
        if self.polar_exact:
            sides = squad_normalise(prediction), squad_normalise(reference)
            if sides[0] != sides[1] and not _POLAR.isdisjoint(sides):
                return 0.0
        return _LIKENESS[self.numeric_metric if is_numeric(reference) else self.metric](
            prediction, reference
        )


def char_f1(prediction: str, reference: str) -> float:
    """Return the F1 over characters without spaces after SQuAD's normalisation, with multiplicity
    (Eq. 3).
    """
    return _f1(
        *(Counter(squad_normalise(text).replace(" ", "")) for text in (prediction, reference))
    )


def word_f1(prediction: str, reference: str) -> float:
    """Return the F1 over words after SQuAD's normalisation, with multiplicity (released code).

    In scripts that are written without spaces every character is a word.
    """
    return _f1(*(Counter(_WORD.findall(squad_normalise(text))) for text in (prediction, reference)))


_LIKENESS: Mapping[AnswerMetric, Callable[[str, str], float]] = {
    AnswerMetric.CHAR_F1: char_f1,
    AnswerMetric.WORD_F1: word_f1,
    AnswerMetric.ANLS: lambda prediction, reference: anls(reference, prediction),
}
"""The likeness of a prediction and a reference, in `[0, 1]`."""


def is_numeric(reference: str) -> bool:
    """Return whether a reference holds a digit, so that the order of its characters decides what it
    says.
    """
    return any(character.isdigit() for character in reference)


def is_refusal(text: str) -> bool:
    """Return whether a text holds the refusal sentence, up to case, punctuation and articles."""
    return squad_normalise(REFUSAL) in squad_normalise(text)


def as_refusal(reference: str) -> str:
    """Return a reference in ALDEN's words: the canonical "not answerable" becomes the refusal
    sentence.
    """
    return REFUSAL if squad_normalise(reference) == squad_normalise(NOT_ANSWERABLE) else reference


def _f1(prediction: Counter[str], reference: Counter[str]) -> float:
    common = (prediction & reference).total()
    # 2PR / (P + R), in the form that needs no case for empty sides
    return 2 * common / (prediction.total() + reference.total()) if common else 0.0


Gram = tuple[str, ...]


class Overlap(StrEnum):
    """The comparison of two queries."""

    JACCARD = "jaccard"
    """Common n-grams over all n-grams of both; tokens answer for those they share with the nearest
    earlier query (the paper).
    """
    CONTAINMENT = "containment"
    """Common n-grams over those of the new query; tokens answer for those of any earlier query (the
    released code).
    """


@dataclass(frozen=True, slots=True)
class Query:
    """A query as the `(w,)` stems of its words, and their spans in the text that it came from."""

    words: tuple[str, ...]
    spans: tuple[Span, ...]


def read_query(text: str, span: Span) -> Query:
    """Return the words of a query.

    Words stand in for the paper's tokens, so that the same query costs the same whatever the
    tokenizer and wherever its spaces and capitals are. They are the stems that BM25 compares: what
    a search does not see makes no query new. A query without a word is read mark by mark.
    """
    start, end = span
    found = list(spans(text[start:end])) or list(spans(text[start:end], MARK))
    places = tuple((start + first, start + last) for first, last, _ in found)
    return Query(tuple(_STEMMER.stems(word for _, _, word in found)), places)


def repetition(
    query: Sequence[str], earlier: Sequence[Sequence[str]], rule: Overlap, n: int
) -> tuple[float, tuple[float, ...]]:
    """Return the overlap of a query with the earlier ones, in `[0, 1]`, and the `(w,)` share of
    each word.

    It is the largest overlap, at the first n-gram length that has any. The shares sum to 1, or are
    all 0 without overlap.

    n-grams of `n` words are compared first, then shorter ones down to single words, until some are
    shared; without that, short paraphrases would never be noticed. A word's part is the number of
    shared n-gram occurrences that cover it.

    Args:
        query: `(w,)` words of the new query.
        earlier: words of the earlier ones.
        rule: what to divide by, and whose n-grams count.
        n: longest n-grams; a query of fewer words begins with its own length.
    """
    for size in range(min(n, len(query)), 0, -1):
        own = _grams(query, size)
        wanted = frozenset(own)
        others = [frozenset(_grams(words, size)) for words in earlier]
        overlaps = [
            len(wanted & other) / len(wanted | other if rule is Overlap.JACCARD else wanted)
            for other in others
        ]
        most = max(overlaps, default=0.0)
        if most > 0:
            nearest = others[overlaps.index(most)]
            charged = nearest if rule is Overlap.JACCARD else frozenset().union(*others)
            return most, _shares(own, charged, size)
    return 0.0, (0.0,) * len(query)


def _grams(words: Sequence[str], size: int) -> list[Gram]:
    return [tuple(words[at : at + size]) for at in range(len(words) - size + 1)]


def _shares(own: Sequence[Gram], charged: frozenset[Gram], size: int) -> tuple[float, ...]:
    counts = [0] * (len(own) + size - 1)
    for at, gram in enumerate(own):
        if gram in charged:
            for word in range(at, at + size):
                counts[word] += 1
    total = sum(counts)
    return tuple(count / total for count in counts)
