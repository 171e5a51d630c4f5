"""The rewards of ALDEN (arXiv 2510.25668, section 4.2, Eq. 2 to 5) and of its released code.

They cover turns, answers and repeated words of queries.
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
"""The names of a turn's terms, which `AldenReward.formula` explains."""


class SearchCredit(StrEnum):
    """The reward of a search."""

    PRECISION = "precision"
    """The share of gold pages among those returned, also for repeated searches (the paper)."""
    NEW_GOLD = "new_gold"
    """The number of gold pages that were not shown before (the released code)."""


class FetchCredit(StrEnum):
    """The reward of a fetch."""

    PROXIMITY = "proximity"
    """`exp(-mean distance)` to the gold pages (the paper)."""
    GOLD_OR_NEAR = "gold_or_near"
    """1 for a gold page, else `0.3 * exp(-mean distance / 2)` (the released code)."""


class DroppedCall(StrEnum):
    """The reward of a call that ended the trajectory because its pages did not fit."""

    FAILED = "failed"
    """As if it had found nothing: no credit for a search, the penalty of a failed fetch."""
    FORMAT = "format"
    """As malformed, since it is the last turn but not an answer (the released code)."""


class AldenReward(Section):
    """Weights and rules of the turn reward `r = f + u` (section 4.2).

    A failed fetch costs 0.5, as in the released code; the paper does not specify it.
    """

    alpha: float = Field(5.0, ge=0, allow_inf_nan=False)
    """Weight of the answer score."""
    search: SearchCredit
    fetch: FetchCredit
    eta_fetch: float = Field(ge=0, allow_inf_nan=False)
    """Penalty for fetching a page that was already shown in the same form."""
    failed_fetch: float = Field(0.5, ge=0, allow_inf_nan=False)
    """Penalty for a fetch that shows no page."""
    wrong_refusal: float = Field(ge=0, allow_inf_nan=False)
    """Penalty for refusing an answerable question; with 0 only the answer score counts."""
    missed_refusal: float = Field(ge=0, allow_inf_nan=False)
    """Penalty for answering an unanswerable question; with 0 only the answer score counts."""
    unanswerable: bool
    """Reward and penalise calls for unanswerable questions, whose set of gold pages is empty."""
    calls: bool = True
    """Reward and penalise calls at all; `false` leaves format and answer (outcome reward only)."""
    dropped_call: DroppedCall
    """The reward of a call that ended the trajectory because its pages did not fit."""

    @property
    def formula(self) -> Formula:
        """The reward of a turn from its terms: `f + u`, or -1 for a malformed turn.

        `format` is 0 or -1; `search`, `fetch` and `answer` are credits; `fetch_repetition`,
        `fetch_failed`, `wrong_refusal` and `missed_refusal` are 0 or 1. The query term is not part
        of the sum; it is applied to its tokens.
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
        """Return the credit of a search that showed the pages `found`.

        `seen` are the pages that were shown before, in either form.
        """
        if self.search is SearchCredit.NEW_GOLD:
            return float(len(set(found) & set(gold) - set(seen)))
        pages = set(found)
        # |C ∩ G| / |C| (Eq. 3)
        return len(pages & set(gold)) / len(pages) if pages else 0.0

    def fetch_credit(self, page: int, gold: Collection[int]) -> float:
        """Return the credit for fetching a page, in `[0, 1]`; 0 if there are no gold pages."""
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
        """Return the terms of a well-formed answer.

        `score` is its similarity to the references, in `[0, 1]`. If only some of the references are
        the refusal sentence, the score decides.
        """
        if self.wrong_refusal and answerable and refused and not refusal_is_right:
            return {"wrong_refusal": 1.0}
        if self.missed_refusal and not answerable and not refused:
            return {"missed_refusal": 1.0}
        return {"answer": score}


REFUSAL = "The problem is not answerable"
"""The sentence with which the agent refuses, and the reference if a refusal is right."""

_STEMMER = Tokenizer(Stemmer.ENGLISH)
_WORD = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_POLAR = frozenset({"yes", "no", "noanswer"})


class AnswerMetric(StrEnum):
    """A similarity of two answers, in `[0, 1]`."""

    CHAR_F1 = "char_f1"
    """F1 over characters without spaces (the paper). It ignores order: `42` equals `24`."""
    WORD_F1 = "word_f1"
    """F1 over words (the released code)."""
    ANLS = "anls"
    """Edit distance; a similarity below one half counts as 0."""


@dataclass(frozen=True, slots=True)
class AldenAnswerRule:
    """The rule by which answers are scored.

    Args:
        metric: the metric for references without a digit.
        numeric_metric: the metric for references with a digit.
        polar_exact: whether yes, no and noanswer, on either side, must match exactly.
    """

    metric: AnswerMetric
    numeric_metric: AnswerMetric
    polar_exact: bool = False

    def score(self, prediction: str, references: Sequence[str]) -> float:
        """Return the best score over the references, in `[0, 1]`.

        The score is 0 if normalisation leaves nothing of the answer.
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
    """Return the F1 over non-space characters after SQuAD's normalisation, with multiplicity (Eq.
    3).
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
"""The similarity of a prediction and a reference, in `[0, 1]`, by metric."""


def is_numeric(reference: str) -> bool:
    """Return whether a reference contains a digit, so that the order of its characters matters."""
    return any(character.isdigit() for character in reference)


def is_refusal(text: str) -> bool:
    """Return whether a text contains the refusal sentence, up to case, punctuation and articles."""
    return squad_normalise(REFUSAL) in squad_normalise(text)


def as_refusal(reference: str) -> str:
    """Replace the canonical reference "not answerable" with ALDEN's refusal sentence."""
    return REFUSAL if squad_normalise(reference) == squad_normalise(NOT_ANSWERABLE) else reference


def _f1(prediction: Counter[str], reference: Counter[str]) -> float:
    common = (prediction & reference).total()
    # equals 2PR / (P + R), without a special case for empty sides
    return 2 * common / (prediction.total() + reference.total()) if common else 0.0


Gram = tuple[str, ...]


class Overlap(StrEnum):
    """The way in which two queries are compared."""

    JACCARD = "jaccard"
    """Common n-grams divided by all n-grams of both queries; the penalty falls on tokens whose
    n-grams occur in the most similar earlier query (the paper).
    """
    CONTAINMENT = "containment"
    """Common n-grams divided by those of the new query; the penalty falls on tokens whose n-grams
    occur in any earlier query (the released code).
    """


@dataclass(frozen=True, slots=True)
class Query:
    """A query: the `(w,)` stems of its words, and their spans in the original text."""

    words: tuple[str, ...]
    spans: tuple[Span, ...]


def read_query(text: str, span: Span) -> Query:
    """Split a query into words.

    Words replace the paper's tokens, so that the penalty of a query does not depend on the
    tokenizer, on spaces or on capitals. They are stemmed as in BM25: changes that a search does not
    notice do not make a query new. A query without words is split into punctuation marks.
    """
    start, end = span
    found = list(spans(text[start:end])) or list(spans(text[start:end], MARK))
    places = tuple((start + first, start + last) for first, last, _ in found)
    return Query(tuple(_STEMMER.stems(word for _, _, word in found)), places)


def repetition(
    query: Sequence[str], earlier: Sequence[Sequence[str]], rule: Overlap, n: int
) -> tuple[float, tuple[float, ...]]:
    """Return a query's overlap with earlier queries, in `[0, 1]`, and the `(w,)` shares of its
    words.

    The overlap is the largest one over the earlier queries. n-grams of `n` words are compared
    first, then shorter ones down to single words, until some are shared; otherwise short
    paraphrases would never be noticed. A word's share is proportional to the number of shared
    n-gram occurrences that cover it. The shares sum to 1, or are all 0 if there is no overlap.

    Args:
        query: `(w,)` words of the new query.
        earlier: words of each earlier query.
        rule: the denominator of the overlap, and whose n-grams count.
        n: length of the longest n-grams; for a query of fewer words, its own length.
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
