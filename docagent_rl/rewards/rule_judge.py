"""Judges that compare texts by rule; none of them can fail or be unreachable.

`RuleJudge` is for laptops, tests and cheap ablations: no model, no service, the same verdict every time. It
is not for numbers that go into a paper. `docs/rule_judge.md` has its accuracy by kind of answer.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from docagent_rl.rewards.rule.atoms import Atom, read
from docagent_rl.rewards.rule.claims import (
    Question,
    claims_only,
    declines,
    is_refusal,
    mentions_refusal,
    polarity,
)
from docagent_rl.rewards.rule.words import GRAMMAR, NUMBERED, SUFFIXES, TITLES, YES, fold

MAX_CHARS = 2000
"""Longer answers are right only when they are the reference."""


class _AlwaysThere:
    """A judge that needs no service."""

    __slots__ = ()

    async def check(self) -> None:
        """See `Judge`; never fails."""


@dataclass(frozen=True, slots=True)
class RuleJudge(_AlwaysThere):
    """A judge without a model, for laptops, tests and questions with short answers.

    An answer is right when it is one of the references, or says it and beside it only words that answer
    nothing (`docs/rule_judge.md`). Where a rule cannot tell, it is wrong: a policy that is trained on these
    verdicts looks for whatever is rewarded by mistake.
    """

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        # an answer as long as a turn takes half a second
        return await asyncio.to_thread(self._judge, question, references, prediction)

    def _judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        asked = Question(question)
        return float(any(_accepts(reference, prediction, asked) for reference in references))


@dataclass(frozen=True, slots=True)
class LikenessJudge(_AlwaysThere):
    """Graded by the greatest likeness of a reference and the answer, in `[0, 1]` (`rewards.text`)."""

    likeness: Callable[[str, str], float]

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        return max((self.likeness(reference, prediction) for reference in references), default=0.0)


def _accepts(reference: str, prediction: str, question: Question) -> bool:
    is_long = max(len(reference), len(prediction)) > MAX_CHARS
    wanted, given = (text if is_long else fold(text) for text in (reference, prediction))
    if wanted.casefold().split() == given.casefold().split():
        return bool(given.strip())
    atoms, said = ([], []) if is_long else (read(wanted), read(given))
    if not atoms or not said:
        return False
    if is_refusal(reference):
        return declines(given, question)
    if mentions_refusal(given):
        return False
    if len(atoms) == 1 and atoms[0].text in ("yes", "no", "true", "false"):
        return polarity(said, question) is (atoms[0].text in YES)
    return _holds([item for part in wanted.split(";") if (item := read(part))], said, question)


def _holds(items: Sequence[Sequence[Atom]], said: Sequence[Atom], question: Question) -> bool:
    """Return whether an answer says every item, each in its own place, and nothing else."""
    hits: frozenset[int] = frozenset()
    for item in sorted(items, key=len, reverse=True):
        found = [place for form in _forms(item, question) for place in _spans(item, form, said, question)]
        free = [place for place in found if hits.isdisjoint(place)]
        if not free:
            return False
        hits = hits.union(*free)
    return claims_only(said, hits, question)


def _forms(reference: Sequence[Atom], question: Question) -> list[list[Atom]]:
    """Return the ways in which a reference may be said, the fullest first."""
    idle_words = ((), question.nouns, TITLES | SUFFIXES)
    found = [[atom for atom in reference if atom.text not in idle] for idle in idle_words]
    return [form for i, form in enumerate(found) if form and form not in found[:i]]


def _spans(
    wanted: Sequence[Atom], form: Sequence[Atom], said: Sequence[Atom], question: Question
) -> list[range]:
    """Return where a form of a reference stands in an answer."""
    places = [range(at, at + len(form)) for at in range(len(said) - len(form) + 1)]
    return [
        place
        for place in places
        if all(_same(form, i, said[at], question) for i, at in enumerate(place))
        and (len(form) == len(wanted) or not _has_unit(said, place.stop, question))
    ]


def _has_unit(said: Sequence[Atom], end: int, question: Question) -> bool:
    """Return whether a number has a unit of the question, which may not be that of the reference."""
    if said[end - 1].number is None or end == len(said):
        return False
    return said[end].key in question.keys and said[end].text not in GRAMMAR


def _same(form: Sequence[Atom], at: int, given: Atom, question: Question) -> bool:
    wanted = form[at]
    if wanted.days:
        # one that can be read in two ways is right only where both are: 03/04/2021
        return bool(given.days) and given.days <= wanted.days
    # section 3.2 is not section 3.20
    is_label = bool(NUMBERED & {form[at - 1].text if at else "", *question.asked})
    if None in (wanted.number, given.number) or (is_label and "." in wanted.text + given.text):
        return (wanted.text, wanted.number) == (given.text, given.number)
    return wanted.number == given.number
