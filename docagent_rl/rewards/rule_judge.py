"""Judges that compare texts by rule; none of them can fail or be unreachable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docagent_rl.rewards.text import anls, is_number, squad_normalise, token_recall, tokens

NOT_ANSWERABLE = "Not answerable"
"""The reference of a question that its document does not answer."""

_REFUSALS = tuple(
    tuple(tokens(phrase))
    for phrase in (
        "not answerable",
        "unanswerable",
        "cannot be answered",
        "cant be answered",
        "cannot be determined",
        "cant be determined",
        "cannot answer",
        "not enough information",
        "insufficient information",
        "no answer",
        "not mentioned",
        "not stated",
        "not specified",
        "not provided",
        "the document does not say",
    )
)
_OPPOSITES = (("yes", "no"), ("true", "false"))
_NEGATIONS = frozenset(
    {"not", "no", "never", "neither", "nor", "without", "isnt", "arent", "wasnt", "werent"}
)


class _AlwaysThere:
    """What needs no service is always there."""

    __slots__ = ()

    async def check(self) -> None:
        """See `Judge`; never fails."""


@dataclass(frozen=True, slots=True)
class RuleJudge(_AlwaysThere):
    """A judge without a model, for laptops, tests and questions with short answers.

    Both sides are normalised by `docagent_rl.rewards.text.tokens`. An answer is right when, for one of the
    references, one of these holds:

    - its tokens equal the reference's;
    - it holds the reference's tokens in a row, not directly behind a negation, and has at most `extra_tokens`
      tokens more than the reference: extra correct information is allowed, a dump of candidates is not. For a
      reference that is one number the answer may hold at most `max_numbers` distinct numbers; for yes, no,
      true and false the first such word of the answer counts;
    - the reference is a list joined by `"; "` and every item is held in that sense, in any order;
    - the reference is a refusal such as "not answerable" and so is the answer, which then holds a phrase such
      as "cannot be determined".

    Args:
        extra_tokens: tokens an answer may have beyond the reference.
        max_numbers: distinct numbers an answer to a numeric reference may have.
    """

    extra_tokens: int = 16
    max_numbers: int = 2

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        answer = tokens(prediction)
        return float(any(self._accepts(reference, prediction, answer) for reference in references))

    def _accepts(self, reference: str, prediction: str, answer: list[str]) -> bool:
        wanted = tokens(reference)
        if not wanted:
            return reference.strip() == prediction.strip() != ""
        if answer == wanted:
            return True
        if _is_refusal(wanted, 0):
            return _is_refusal(answer, self.extra_tokens)
        items = [item for item in map(tokens, reference.split(";")) if item]
        return len(answer) <= len(wanted) + self.extra_tokens and all(self._holds(answer, i) for i in items)

    def _holds(self, answer: list[str], item: list[str]) -> bool:
        if not any(at == 0 or answer[at - 1] not in _NEGATIONS for at in _positions(answer, item)):
            return False
        if len(item) > 1:
            return True
        if is_number(item[0]):
            return len({token for token in answer if is_number(token)}) <= self.max_numbers
        pair = next((pair for pair in _OPPOSITES if item[0] in pair), ())
        return not pair or next(token for token in answer if token in pair) == item[0]


@dataclass(frozen=True, slots=True)
class ExactMatchJudge(_AlwaysThere):
    """1 when the answer equals a reference after SQuAD's normalisation, else 0."""

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        answer = squad_normalise(prediction)
        return float(bool(answer) and any(answer == squad_normalise(reference) for reference in references))


@dataclass(frozen=True, slots=True)
class AnlsJudge(_AlwaysThere):
    """Graded: the best ANLS over the references, 0 below the threshold."""

    threshold: float = 0.5

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        return max((anls(reference, prediction, self.threshold) for reference in references), default=0.0)


@dataclass(frozen=True, slots=True)
class RecallJudge(_AlwaysThere):
    """Graded: the best share of a reference's tokens that the answer holds."""

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        return max((token_recall(reference, prediction) for reference in references), default=0.0)


def _is_refusal(answer: list[str], extra_tokens: int) -> bool:
    return any(
        len(answer) <= len(phrase) + extra_tokens and bool(_positions(answer, phrase)) for phrase in _REFUSALS
    )


def _positions(haystack: list[str], needle: Sequence[str]) -> list[int]:
    size = len(needle)
    return [at for at in range(len(haystack) - size + 1) if haystack[at : at + size] == list(needle)]
