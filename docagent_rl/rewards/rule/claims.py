"""What an answer claims: one thing, said and not denied, or several to choose from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from docagent_rl.rewards.rule.atoms import Atom, AtomKind
from docagent_rl.rewards.rule.phrases import (
    COMPARATORS,
    DENIALS,
    DIFFERENCES,
    EVERYTHING,
    FRAME,
    FUNCTION,
    GENERIC,
    HEDGES,
    IDENTIFYING,
    LABELLED,
    NEGATORS,
    NOT_GOVERNING,
    NUMBERED,
    PREPOSITIONS,
    SUFFIXES,
    TITLES,
    TURNS,
    UNSURE,
)
from docagent_rl.rewards.rule.question import Question

_SPLITS = frozenset(".;!?\n,:()[]{}|/=<>*+\\")
_DETERMINERS = frozenset({"it", "its", "their", "his", "her", "our", "this", "that", "each"})
_MAX_PROSE = 5
"""Runs of common words beside the answer."""
_MAX_PLAIN_PROSE = 1
"""The same, beside an answer that is itself a common word."""
_MAX_ASIDES = 3
"""Other names or numbers, each behind a preposition."""
_IDLE = FUNCTION | FRAME | PREPOSITIONS | NEGATORS | UNSURE | HEDGES | TITLES | SUFFIXES
_NAMING = IDENTIFYING | frozenset({"and", "or", "but"})
_GRAMMAR = (FUNCTION | PREPOSITIONS) - _NAMING
_GOVERNING = PREPOSITIONS - NOT_GOVERNING


@dataclass(slots=True)
class Segment:
    """What stands between two marks.

    Args:
        atoms: in order.
        hits: positions of atoms that are part of the reference.
    """

    atoms: list[Atom] = field(default_factory=list)
    hits: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring atoms that mean something; `behind` is the preposition in front, if there is one."""

    start: int
    atoms: tuple[Atom, ...]
    behind: str


def split(atoms: Sequence[Atom], hits: frozenset[int] = frozenset()) -> list[Segment]:
    """The segments of an answer; marks inside the reference do not split."""
    segments = [Segment()]
    for at, atom in enumerate(atoms):
        if at not in hits and _splits(atom):
            segments.append(Segment())
            continue
        if at not in hits and _turns(atom, segments[-1].atoms):
            segments.append(Segment())
        if at in hits:
            segments[-1].hits.add(len(segments[-1].atoms))
        if atom.kind is not AtomKind.MARK or at in hits:
            segments[-1].atoms.append(atom)
    return [segment for segment in segments if segment.atoms]


def claims_only(
    atoms: Sequence[Atom], hits: frozenset[int], question: Question, *, several: bool = False
) -> bool:
    """Whether an answer claims the reference and nothing beside it.

    Args:
        atoms: the answer.
        hits: positions of the atoms that say the reference.
        question: what was asked.
        several: whether the reference is a list, whose items may stand beside one another.
    """
    rest = [atom for at, atom in enumerate(atoms) if at not in hits]
    if _is_hedged(rest, question) or sum(atom.text in UNSURE for atom in rest) > 1:
        return False
    segments = split(atoms, hits)
    plain = []
    for segment in segments:
        if not _is_negated(segment, question):
            plain.append(segment)
        elif segment.hits or not _denies_something(segment, question):
            return False
    if not any(segment.hits for segment in plain):
        return False
    wanted = [atoms[at] for at in sorted(hits)]
    appositions = sum(_is_apposition(segment, wanted) for segment in plain)
    if appositions > 1 or not all(
        _is_apposition(segment, wanted) or _is_at_peace(segment, question, several, wanted)
        for segment in plain
    ):
        return False
    return not _rivals(plain, wanted, question)


def is_bare(atoms: Sequence[Atom], question: Question) -> bool:
    """Whether atoms name something without saying anything about it, as items of a list do."""
    meant = any(_means(atom, question) for atom in atoms)
    return meant and not any(atom.text in _GRAMMAR for atom in atoms)


def _splits(atom: Atom) -> bool:
    return atom.kind is AtomKind.MARK and (atom.text in _SPLITS or (atom.text == "-" and atom.raw != "-"))


def _turns(atom: Atom, before: Sequence[Atom]) -> bool:
    """Whether a word begins a new claim: "instead of", "but" unless it excepts, "rather than"."""
    if not before or atom.text not in TURNS:
        return False
    return not (atom.text in ("but", "except") and before[-1].text in EVERYTHING)


def _is_hedged(rest: Sequence[Atom], question: Question) -> bool:
    return any(atom.text in HEDGES and atom.text not in question.stems for atom in rest)


def _is_negated(segment: Segment, question: Question) -> bool:
    rest = [atom for at, atom in enumerate(segment.atoms) if at not in segment.hits]
    found = [atom for atom in rest if atom.text in NEGATORS]
    texts = [atom.text for atom in rest]
    pairs = set(pairwise(texts))
    if any(one in EVERYTHING and two == "but" for one, two in pairs) or pairs & DENIALS:
        return True
    if "other" in texts and "than" not in texts:
        found = [atom for atom in found if atom.text != "other"]
    if found and all(atom.text in question.negators for atom in found):
        echoed = any(question.repeats(atom) and atom.text not in _IDLE for atom in rest)
        return not echoed
    return bool(found)


def _denies_something(segment: Segment, question: Question) -> bool:
    """Whether a negated segment names what it denies; a mere "no" denies the answer itself."""
    return any(atom.text not in _IDLE or atom.quantity for atom in segment.atoms)


def _is_apposition(segment: Segment, wanted: Sequence[Atom]) -> bool:
    """Whether a segment explains a name, as in: Jane Roe, the chief executive."""
    if segment.hits or not segment.atoms[0].is_article or not wanted[0].is_capital:
        return False
    return all(atom.kind is AtomKind.WORD and not atom.is_capital for atom in segment.atoms)


def _is_at_peace(segment: Segment, question: Question, several: bool, wanted: Sequence[Atom]) -> bool:
    """Whether a segment neither offers a choice nor puts the reference into a longer name."""
    atoms = segment.atoms
    if not segment.hits:
        if all(map(_is_amount, atoms)) and not any(map(_is_amount, wanted)):
            return True
        return not is_bare(atoms, question) and not (
            atoms[0].text in ("or", "and") and len(atoms) > 1 and _means(atoms[1], question)
        )
    if any(atom.text == "or" for at, atom in enumerate(atoms) if at not in segment.hits):
        return False
    edges = [at for at in segment.hits if at - 1 not in segment.hits]
    ends = [at for at in segment.hits if at + 1 not in segment.hits]
    return all(_fits_before(segment, at, question, several) for at in edges) and all(
        _fits_behind(segment, at, question, several) for at in ends
    )


def _fits_before(segment: Segment, at: int, question: Question, several: bool) -> bool:
    atoms = segment.atoms
    before = at - 1
    while before >= 0 and atoms[before].is_article and before not in segment.hits:
        before -= 1
    if before < 0 or before in segment.hits:
        return True
    if atoms[before].text == "and":
        return _joins_nothing(segment, before - 1, question, several)
    if _is_amount(atoms[at]):
        return not _is_bounded(atoms, at, before)
    near = atoms[before]
    if near.text == "of" and before and _means(atoms[before - 1], question):
        return atoms[before - 1].text in GENERIC
    if not _means(near, question) or near.possessive:
        return not (
            near.kind is AtomKind.WORD
            and near.is_capital
            and near.text not in _IDLE | question.nouns
            and atoms[at].is_capital
        )
    return near.kind is AtomKind.WORD and (near.text in LABELLED or (_is_verb(near) and atoms[at].is_capital))


def _fits_behind(segment: Segment, at: int, question: Question, several: bool) -> bool:
    atoms = segment.atoms
    behind = at + 1
    if behind >= len(atoms) or behind in segment.hits:
        return True
    near = atoms[behind]
    if near.text == "and":
        return _joins_nothing(segment, behind + 1, question, several)
    if _is_amount(atoms[at]):
        return near.text not in DIFFERENCES and _counts_the_same(near, question, atoms[at])
    if near.is_article:
        # "the board the council": what follows is no part of the sentence about the reference
        return all(not _means(atom, question) for atom in atoms[behind : behind + 2])
    if near.kind is not AtomKind.WORD:
        return question.repeats(near)
    if not _means(near, question):
        return not (near.is_capital and near.text not in _IDLE | question.nouns)
    following = atoms[behind + 1] if behind + 1 < len(atoms) else None
    return not near.is_capital and atoms[at].is_capital and bool(following and following.text in _IDLE)


def _joins_nothing(segment: Segment, other: int, question: Question, several: bool) -> bool:
    """Whether an "and" beside the reference joins no second answer to it."""
    atoms = segment.atoms
    while 0 <= other < len(atoms) and atoms[other].is_article:
        other += 1
    if not 0 <= other < len(atoms):
        return True
    if other in segment.hits:
        return several
    return not _means(atoms[other], question) and atoms[other].text not in question.stems


def _is_amount(atom: Atom) -> bool:
    return atom.kind not in (AtomKind.WORD, AtomKind.MARK)


def _is_bounded(atoms: Sequence[Atom], at: int, before: int) -> bool:
    """Whether a number is only a bound: over 12, at least 12, up to 12; or belongs to a name: Table 12."""
    texts = [atom.text for atom in atoms[max(0, before - 1) : at]]
    if texts[-1] in COMPARATORS or (texts[-1] == "than" and len(texts) > 1):
        return True
    return tuple(texts[-2:]) in (("at", "least"), ("at", "most"), ("up", "to"))


def _counts_the_same(near: Atom, question: Question, amount: Atom) -> bool:
    """Whether the word behind a number is what the question asked for, or no thing that is counted."""
    if near.kind is not AtomKind.WORD:
        return False
    if not _means(near, question) or near.text in question.stems:
        return True
    return not question.counts and not near.is_capital


def _is_verb(atom: Atom) -> bool:
    return not atom.is_capital and atom.raw.endswith(("s", "ed", "ing"))


def _means(atom: Atom, question: Question) -> bool:
    """Whether an atom says something that neither grammar nor the question explains."""
    if atom.kind is AtomKind.MARK or atom.is_article or question.repeats(atom):
        return False
    return atom.kind is not AtomKind.WORD or atom.text not in _IDLE


def _rivals(segments: Sequence[Segment], wanted: Sequence[Atom], question: Question) -> bool:
    """Whether a second name or number stands where an answer may stand."""
    amounts = any(map(_is_amount, wanted))
    named = any(atom.is_capital for atom in wanted)
    prose, asides, repeated = 0, 0, set()
    for segment in segments:
        own = {_preposition(segment.atoms, at) for at in segment.hits if at - 1 not in segment.hits}
        repeated |= own - {""}
    first = next(at for at, segment in enumerate(segments) if segment.hits)
    for number, segment in enumerate(segments):
        for run in _runs(segment, question):
            # before the answer; within its segment only by a name: one of the cities is Paris
            early = number < first or (number == first and run.atoms[0].is_capital)
            if early and _begins_a_list(segment, run):
                return True
            if not _competes(run, amounts, segment, wanted, question):
                prose += not run.behind and (amounts or named or not _is_verbal(run))
            elif not run.behind or run.behind in repeated or (number < first and _is_left_open(segment, run)):
                return True
            else:
                asides += 1
    # without capitals a second answer looks like any other word
    return prose > (_MAX_PROSE if amounts or named else _MAX_PLAIN_PROSE) or asides > _MAX_ASIDES


def _runs(segment: Segment, question: Question) -> Iterator[Run]:
    atoms, start = segment.atoms, None
    for at in range(len(atoms) + 1):
        inside = at < len(atoms) and at not in segment.hits and _means(atoms[at], question)
        if inside and start is None:
            start = at
        elif not inside and start is not None:
            yield Run(start, tuple(atoms[start:at]), _preposition(atoms, start))
            start = None


def _preposition(atoms: Sequence[Atom], at: int) -> str:
    """The preposition in front of a place, past articles; a possessive in front of a thing is as good."""
    before = at - 1
    while before >= 0 and (atoms[before].is_article or atoms[before].text in _DETERMINERS):
        before -= 1
    return atoms[before].text if before >= 0 and atoms[before].text in _GOVERNING else ""


def _is_left_open(segment: Segment, run: Run) -> bool:
    """Whether a segment ends with a run that the next may go on listing: one of Paris, London.

    A mere setting of the scene does not: In 2020, At Acme.
    """
    scene = len(segment.atoms) - len(run.atoms) <= 1 or segment.atoms[1].is_article
    return run.start + len(run.atoms) == len(segment.atoms) and not scene


def _begins_a_list(segment: Segment, run: Run) -> bool:
    texts = [atom.text for atom in segment.atoms[: run.start] if not atom.is_article]
    return texts[-2:] == ["one", "of"]


def _is_verbal(run: Run) -> bool:
    return len(run.atoms) == 1 and run.atoms[0].raw.endswith(("ed", "ing", "ly"))


def _competes(run: Run, amounts: bool, segment: Segment, wanted: Sequence[Atom], question: Question) -> bool:
    """Whether a run is of the kind that the reference is: a number beside a number, a name beside a name."""
    if run.atoms[-1].possessive:
        return False
    if amounts:
        return any(
            _is_amount(atom) and not _is_aside(segment.atoms, run.start + i, wanted, question)
            for i, atom in enumerate(run.atoms)
        )
    capitals = [atom for atom in run.atoms if atom.is_capital]
    if len(capitals) == 1 and capitals[0].opens and capitals[0].raw.endswith(("ing", "ed", "ly")):
        return False
    return bool(capitals)


def _is_aside(atoms: Sequence[Atom], at: int, wanted: Sequence[Atom], question: Question) -> bool:
    """Whether a number is no second answer: Table 3, 5 more, or the same amount in another unit."""
    if at and atoms[at - 1].text in NUMBERED - question.asked:
        return True
    if at + 1 < len(atoms) and atoms[at + 1].text in DIFFERENCES:
        return True
    amount = atoms[at].quantity
    return bool(
        amount
        and any(atom.quantity and atom.quantity.unit and atom.quantity.equals(amount) for atom in wanted)
    )
