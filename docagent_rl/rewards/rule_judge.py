"""Judges that compare texts by rule; they need no service, so they cannot fail.

`RuleJudge` is for laptops, tests and cheap ablations: it uses no model and no service, and its
verdicts are deterministic. Do not use it for numbers in a paper. `docs/rule_judge.md` lists its
accuracy by kind of answer.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from docagent_rl.rewards.rule.atoms import Atom, read
from docagent_rl.rewards.rule.claims import QuestionHints, claims_only, is_idle, is_plain
from docagent_rl.rewards.rule.frames import Unframed, unframe
from docagent_rl.rewards.rule.lexicon import GRAMMAR, NUMBERED, SUFFIXES, TITLES, VERDICTS
from docagent_rl.rewards.rule.markup import bare, without_markup
from docagent_rl.rewards.rule.refusals import declines, mentions_refusal, says_unanswerable
from docagent_rl.rewards.rule.verdicts import polarity
from docagent_rl.rewards.rule.words import fold

MAX_CHARS = 2000
"""A longer answer is right only if it is equal to the reference."""

_OF_WHAT = re.compile(
    r"(?:\b(?:of|for|to|than|from|by no means|like)|['\u2019]s)\s*\n", re.IGNORECASE
)
_RATIO = re.compile(r"\b(\d+)(?: to |-to-)(\d+)\b")


class _LocalJudge:
    """A judge that needs no service."""

    __slots__ = ()

    async def check(self) -> None:
        """See `Judge`; never fails."""


@dataclass(frozen=True, slots=True)
class RuleJudge(_LocalJudge):
    """A judge without a model, for laptops, tests and questions with short answers.

    An answer is right if it is equal to a reference, or states it together with nothing but words
    that could not be an answer themselves (`docs/rule_judge.md`). An answer that the rules cannot
    decide is wrong, because a policy that is trained on these verdicts exploits every false
    positive.
    """

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        # judging an answer as long as a whole turn takes half a second
        return await asyncio.to_thread(self._judge, question, references, prediction)

    def _judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        answer = _ParsedAnswer(question, prediction)
        return float(any(answer.is_right(reference) for reference in references))


@dataclass(frozen=True, slots=True)
class LikenessJudge(_LocalJudge):
    """A judge that scores an answer by its similarity to the closest reference, in `[0, 1]`.

    The similarities are in `rewards.text`.
    """

    likeness: Callable[[str, str], float]

    async def judge(self, question: str, references: Sequence[str], prediction: str) -> float:
        """See `Judge`; never fails."""
        return max((self.likeness(reference, prediction) for reference in references), default=0.0)


class _ParsedAnswer:
    """An answer, parsed once and compared with all references."""

    def __init__(self, question: str, prediction: str) -> None:
        self._asked = QuestionHints(question)
        self._whole = prediction
        self._is_long = len(prediction) > MAX_CHARS

    @cached_property
    def _bare(self) -> Unframed:
        return unframe(self._whole, cites=not NUMBERED & self._asked.asked)

    @cached_property
    def _text(self) -> str:
        return self._spelt(self._bare.text)

    @cached_property
    def _said(self) -> list[Atom]:
        return read(self._text)

    @cached_property
    def _stressed(self) -> list[Atom]:
        """The part in bold, provided that the words around it are not an answer."""
        # "the rival of **Paris**" does not answer "Paris"
        if not self._bare.stressed or _OF_WHAT.search(self._bare.rest):
            return []
        stressed = read(self._spelt(self._bare.stressed))
        around = read(self._spelt(self._bare.rest))
        is_answer = is_plain(around, self._asked) and not all(
            is_idle(atom, self._asked) for atom in stressed
        )
        return stressed if is_answer else []

    def _spelt(self, text: str) -> str:
        """Return the folded text; if the question asks for a ratio, `3 to 1` becomes `3:1`."""
        return fold(_RATIO.sub(r"\1:\2", text) if "ratio" in self._asked.keys else text)

    def is_right(self, reference: str) -> bool:
        """Return whether the answer is equal to the reference or states it."""
        if reference.split() == self._whole.split():
            return bool(reference.strip())
        if self._is_long or len(reference) > MAX_CHARS:
            return _equal(reference, self._whole)
        wanted = self._spelt(bare(without_markup(reference)))
        if _equal(wanted, self._text):
            return True
        atoms = read(wanted)
        if not atoms or not self._said:
            return False
        if says_unanswerable(reference):
            return declines(self._text, self._asked)
        if mentions_refusal(self._text):
            return False
        if len(atoms) == 1 and atoms[0].text in VERDICTS:
            return polarity(self._text, self._asked) is VERDICTS[atoms[0].text]
        items = [item for part in wanted.split(";") if (item := read(part))]
        return _holds(items, self._said, self._asked) or _holds(items, self._stressed, self._asked)


def _equal(one: str, other: str) -> bool:
    words = one.casefold().split()
    return bool(words) and words == other.casefold().split()


def _holds(items: Sequence[Sequence[Atom]], said: Sequence[Atom], question: QuestionHints) -> bool:
    """Return whether an answer states every item, each at its own position, and nothing else."""
    if not said:
        return False
    hits: frozenset[int] = frozenset()
    for item in sorted(items, key=len, reverse=True):
        found: list[range] = []
        for form in _forms(item, question):
            found += _spans(item, form, said, question)
        free = [span for span in found if hits.isdisjoint(span)]
        if not free:
            return False
        hits = hits.union(*free)
    return claims_only(said, hits, question, is_alone=[len(hits)] == [*map(len, items)])


def _forms(reference: Sequence[Atom], question: QuestionHints) -> list[list[Atom]]:
    """Return the forms in which a reference may be stated, the longest first."""
    idle_words = ((), question.nouns, TITLES | SUFFIXES)
    found = [[atom for atom in reference if atom.text not in idle] for idle in idle_words]
    return [form for i, form in enumerate(found) if form and form not in found[:i]]


def _spans(
    wanted: Sequence[Atom], form: Sequence[Atom], said: Sequence[Atom], question: QuestionHints
) -> list[range]:
    """Return the positions at which a form of a reference occurs in an answer."""
    found = []
    for start in range(len(said) - len(form) + 1):
        span = range(start, start + len(form))
        is_same = all(_same(form, i, said[at], question) for i, at in enumerate(span))
        if is_same and (len(form) == len(wanted) or not _has_unit(said, span.stop, question)):
            found.append(span)
    return found


def _has_unit(said: Sequence[Atom], end: int, question: QuestionHints) -> bool:
    """Return whether a number is followed by a unit of the question.

    That unit may differ from the unit of the reference.
    """
    if said[end - 1].number is None or end == len(said):
        return False
    return said[end].key in question.keys and said[end].text not in GRAMMAR


def _same(form: Sequence[Atom], at: int, given: Atom, question: QuestionHints) -> bool:
    wanted = form[at]
    if wanted.days:
        # an ambiguous date such as 03/04/2021 is right only if both readings are
        return bool(given.days) and given.days <= wanted.days
    # labels are compared as text: section 3.2 is not section 3.20
    is_label = bool(NUMBERED & {form[at - 1].text if at else "", *question.asked})
    if None in (wanted.number, given.number) or (is_label and "." in wanted.text + given.text):
        return (wanted.text, wanted.number) == (given.text, given.number)
    return wanted.number == given.number
