"""Judges that compare texts by rule; none of them can fail or be unreachable.

`RuleJudge` is for laptops, tests and cheap ablations: no model, no service, the same verdict every time. It
is not for numbers that go into a paper. `docs/rule_judge.md` has its accuracy by kind of answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from docagent_rl.rewards.rule.atoms import Atom, read
from docagent_rl.rewards.rule.claims import (
    Question,
    claims_only,
    declines,
    is_refusal,
    mentions_refusal,
    polarity,
    read_question,
    reference_polarity,
)
from docagent_rl.rewards.rule.likeness import forms, spans
from docagent_rl.rewards.rule.words import fold

MAX_CHARS = 2000
"""Longer answers are right only when they are the reference."""
_LONGEST_REFERENCE = 200
"""Atoms; longer references must be repeated literally, which bounds the time of a judgement."""


class _AlwaysThere:
    """A judge that needs no service."""

    __slots__ = ()

    async def check(self) -> None:
        """See `Judge`; never fails."""


@dataclass(frozen=True, slots=True)
class RuleJudge(_AlwaysThere):
    """A judge without a model, for laptops, tests and questions with short answers.

    Texts are read as words, amounts with their units, dates and times (`docagent_rl.rewards.rule`). An answer
    is right when, for one of the references, one of these holds:

    - it is the reference, but for case, accents, blanks and markup;
    - it says the reference (the same words, the same amount in any unit, the same date), and beside it only
      words that answer nothing: grammar, the frame of an answer, words of the question, page numbers;
    - the reference is a list joined by `"; "` and the answer says every item and no other;
    - the reference is yes, no, true or false, and so is the answer;
    - the reference is a refusal such as "not answerable", and the answer declines and guesses nothing.

    A unit may be left out, or added, where the question names it. Where a rule cannot tell, the answer is
    wrong: a policy that is trained on these verdicts looks for whatever is rewarded by mistake.
    """

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        # an answer as long as a turn takes half a second
        return await asyncio.to_thread(self._judge, question, references, prediction)

    def _judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        answer, asked = Answer.read(prediction), read_question(question)
        return float(any(self._accepts(reference, answer, asked) for reference in references))

    def _accepts(self, reference: str, answer: Answer, question: Question) -> bool:
        wanted = Answer.read(reference)
        if wanted.equals(answer):
            return answer.text.strip() != ""
        if not wanted.atoms or not answer.atoms or len(wanted.atoms) > _LONGEST_REFERENCE:
            return False
        if is_refusal(reference):
            return declines(answer.folded, question)
        if mentions_refusal(answer.folded):
            return False
        affirmed = reference_polarity(wanted.atoms)
        if affirmed is not None:
            return polarity(answer.atoms, question) is affirmed
        items = [atoms for item in reference.split(";") if (atoms := read(fold(item)))]
        if len(items) > 1:
            return _holds_all(items, answer.atoms, question)
        return _holds(wanted.atoms, answer.atoms, question)


@dataclass(frozen=True, slots=True)
class LikenessJudge(_AlwaysThere):
    """Graded by the greatest likeness of a reference and the answer, in `[0, 1]` (`rewards.text`)."""

    likeness: Callable[[str, str], float]

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        return max((self.likeness(reference, prediction) for reference in references), default=0.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A text, read."""

    text: str
    folded: str
    bare: str
    atoms: list[Atom]

    @classmethod
    @lru_cache(maxsize=256)  # trajectories of a question share its references
    def read(cls, text: str) -> Answer:
        """Fold a text and read its atoms; of one that is too long only the spelling is compared."""
        if len(text) > MAX_CHARS:
            return cls(text, text, " ".join(text.casefold().split()), [])
        folded = fold(text)
        return cls(text, folded, " ".join(folded.casefold().split()), read(folded))

    def equals(self, other: Answer) -> bool:
        """Compare two texts but for case, as long as case does not change a unit: mW and MW."""
        if self.bare != other.bare:
            return False
        pairs = zip(self.atoms, other.atoms, strict=False)
        return all(one.quantity is None or one.quantity == two.quantity for one, two in pairs)


def _holds(wanted: Sequence[Atom], said: Sequence[Atom], question: Question) -> bool:
    for form in forms(wanted, question):
        found = spans(form, said, question)
        if found and claims_only(said, frozenset().union(*found), question):
            return True
    return False


def _holds_all(items: Sequence[Sequence[Atom]], said: Sequence[Atom], question: Question) -> bool:
    hits: frozenset[int] = frozenset()
    for item in sorted(items, key=len, reverse=True):
        found = [place for form in forms(item, question) for place in spans(form, said, question)]
        free = [place for place in found if hits.isdisjoint(place)]
        if not free:
            return False
        hits = hits.union(*free)
    return claims_only(said, hits, question)
