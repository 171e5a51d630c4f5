"""Where an answer says the same as a reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docagent_rl.rewards.rule.atoms import Atom, AtomKind
from docagent_rl.rewards.rule.phrases import (
    ARTICLES,
    FUNCTION,
    LABELLED,
    NEGATORS,
    NUMBERED,
    PREPOSITIONS,
    SUFFIXES,
    TITLES,
)
from docagent_rl.rewards.rule.quantities import Quantity
from docagent_rl.rewards.rule.question import Question
from docagent_rl.rewards.rule.spelling import root
from docagent_rl.rewards.rule.units import PERCENT, UnitKind

_LONGEST_CORE = 5
_FEWEST_IN_SENTENCE = 2
_BREAKS = frozenset("\n;|/?!:([])")


def content(atoms: Sequence[Atom]) -> list[Atom]:
    """The atoms without marks and articles; all of them where nothing else is there."""
    kept = [a for a in atoms if a.kind is not AtomKind.MARK and not a.is_article]
    return kept or list(atoms)


def forms(reference: Sequence[Atom], question: Question) -> list[list[Atom]]:
    """The ways in which a reference may be said, the fullest first."""
    full = content(reference)
    found = [full]
    if len(full) <= _LONGEST_CORE:
        found.append([atom for atom in full if atom.text not in question.nouns])
    plain = [a for i, a in enumerate(full) if a.text not in TITLES | SUFFIXES and not _is_initial(full, i)]
    found.append(plain)
    commas = [i for i, atom in enumerate(reference) if atom.text == ","]
    if len(commas) == 1 and all(atom.is_capital for atom in full):
        found.append(content([*reference[commas[0] + 1 :], *reference[: commas[0]]]))
    return [form for i, form in enumerate(found) if form and form not in found[:i]]


def spans(form: Sequence[Atom], said: Sequence[Atom], question: Question) -> Iterator[tuple[int, int]]:
    """Where a form stands in an answer: the first of its atoms and the one behind its last."""
    at = 0
    while at < len(said):
        end = _match(form, said, at, question)
        if end:
            yield at, end
        at = end or at + 1


def turned(reference: Sequence[Atom], said: Sequence[Atom], question: Question) -> Iterator[tuple[int, int]]:
    """Where an answer gives a person's last name first, with a comma behind it."""
    full = content(reference)
    if len(full) < 2 or not all(atom.is_capital for atom in full):
        return
    for start, end in spans([full[-1], *full[:-1]], said, question):
        if said[start + 1].text == ",":
            yield start, end


def acronyms(reference: Sequence[Atom], said: Sequence[Atom]) -> Iterator[tuple[int, int]]:
    """Where an answer abbreviates a reference to its initials, or writes its initials out."""
    words = [atom for atom in content(reference) if atom.kind is AtomKind.WORD]
    if len(words) == 1 and _is_acronym(words[0]):
        yield from _written_out(words[0].text, said)
    if len(words) < 2 or len(words) != len(content(reference)) or not words[0].is_capital:
        return
    initials = {
        "".join(atom.raw[0] for atom in words).casefold(),
        "".join(atom.raw[0] for atom in words if atom.text not in FUNCTION | PREPOSITIONS).casefold(),
    }
    for at, atom in enumerate(said):
        if _is_acronym(atom) and atom.text in initials:
            yield at, at + 1


def same_sentence(reference: Sequence[Atom], said: Sequence[Atom], question: Question) -> bool:
    """Whether a long reference is said in other forms of the same words, in order, with little else."""
    wanted, given = _roots(reference), _roots(said)
    if len(wanted) < _FEWEST_IN_SENTENCE or any(atom.quantity for atom in (*reference, *said)):
        return False
    if _negations(reference) != _negations(said):
        return False
    rest = iter(given)
    if not all(any(word == other for other in rest) for word in wanted):
        return False
    asked = {root(stem) for stem in question.stems}
    return all(word in wanted or word in asked for word in given)


def same_quantity(wanted: Quantity, given: Quantity, question: Question) -> bool:
    """Whether two amounts are the same, by their units or by the unit that the question names."""
    if wanted.unit is not None and given.unit is not None:
        return wanted.equals(given)
    if wanted.unit is None and given.unit is None:
        return wanted.equals(given)
    if PERCENT in (wanted.unit, given.unit) and _same_share(wanted, given):
        return True
    if (wanted.value, wanted.high) != (given.value, given.high):
        return False
    unit = wanted.unit or given.unit
    if unit in question.units:
        return True
    if wanted.unit is not None or unit is None or unit.kind is UnitKind.SHARE:
        return False
    # a unit that was not asked for is extra, unless something else was asked for
    others = {other for other in question.units if other.kind is unit.kind}
    return not question.counts and not others


def _same_share(wanted: Quantity, given: Quantity) -> bool:
    percent, plain = (wanted, given) if wanted.unit == PERCENT else (given, wanted)
    return (
        percent.high is None
        and plain.high is None
        and 0 < abs(plain.value) < 1
        and plain.value * 100 == percent.value
    )


def _match(form: Sequence[Atom], said: Sequence[Atom], at: int, question: Question) -> int:
    """Where a form that begins at a place ends; 0 where it does not."""
    start, number = at, 0
    while number < len(form):
        if at >= len(said):
            return 0
        if _same(form, number, said, at, question):
            number += 1
        elif at == start or not _may_skip(said, at, form):
            return 0
        at += 1
    return at


def _may_skip(said: Sequence[Atom], at: int, form: Sequence[Atom]) -> bool:
    atom = said[at]
    if atom.kind is AtomKind.MARK:
        return atom.text not in _BREAKS
    return said[at].is_article or atom.text in ("of", *TITLES) or _is_initial(said, at)


def _same(form: Sequence[Atom], number: int, said: Sequence[Atom], at: int, question: Question) -> bool:
    wanted, given = form[number], said[at]
    if wanted.quantity and given.quantity:
        return _same_number(form, number, said, at, question)
    if wanted.kind is AtomKind.DATE and given.kind is AtomKind.DATE:
        return any(one.holds(other) for one in wanted.dates for other in given.dates)
    if wanted.quantity and given.kind is AtomKind.DATE and wanted.quantity.is_year:
        return all(date.year == wanted.quantity.value for date in given.dates)
    if {wanted.kind, given.kind} == {AtomKind.ORDINAL, AtomKind.QUANTITY}:
        ordinal, amount = (wanted, given) if wanted.kind is AtomKind.ORDINAL else (given, wanted)
        plain = amount.quantity
        return bool(
            plain
            and plain.unit is None
            and plain.high is None
            and plain.value == ordinal.value
            and len(form) == 1
            and not question.counts
        )
    if wanted.kind is not given.kind:
        return False
    if wanted.kind in (AtomKind.TIME, AtomKind.ORDINAL):
        return wanted.value == given.value
    if len(wanted.raw) == 1 and wanted.raw.isalpha() and said[at].is_article:
        return False
    return wanted.text == given.text


def _same_number(
    form: Sequence[Atom], number: int, said: Sequence[Atom], at: int, question: Question
) -> bool:
    wanted, given = form[number].quantity, said[at].quantity
    if wanted is None or given is None:
        return False
    label = said[at - 1].text if at else ""
    own = form[number - 1].text if number else ""
    named = label in NUMBERED or own in NUMBERED
    asked = question.asked & NUMBERED
    if label in NUMBERED and label != own and question.is_known and label not in asked:
        return False
    if (named or asked) and "page" not in (label, own, *asked) and "." in wanted.digits + given.digits:
        return wanted.digits == given.digits
    return same_quantity(wanted, given, question)


def _is_initial(atoms: Sequence[Atom], at: int) -> bool:
    """Whether an atom is the middle initial of a name."""
    if not 0 < at < len(atoms) - 1 or len(atoms[at].raw) != 1 or not atoms[at].is_capital:
        return False
    after = next((atom for atom in atoms[at + 1 :] if atom.kind is not AtomKind.MARK), None)
    return (
        atoms[at - 1].is_capital
        and atoms[at - 1].text not in LABELLED
        and bool(after and after.is_capital and len(after.raw) > 1)
    )


def _is_acronym(atom: Atom) -> bool:
    return atom.kind is AtomKind.WORD and len(atom.raw) > 1 and atom.raw.isupper() and atom.raw.isalpha()


def _written_out(initials: str, said: Sequence[Atom]) -> Iterator[tuple[int, int]]:
    words = [
        (i, a)
        for i, a in enumerate(said)
        if a.kind is AtomKind.WORD and a.text not in ("of", "the", "and", "for")
    ]
    size = len(initials)
    for first in range(len(words) - size + 1):
        window = words[first : first + size]
        if all(
            atom.raw[0].casefold() == letter and len(atom.raw) > 1
            for (_, atom), letter in zip(window, initials, strict=True)
        ):
            yield window[0][0], window[-1][0] + 1


def _roots(atoms: Sequence[Atom]) -> list[str]:
    dropped = FUNCTION | PREPOSITIONS | ARTICLES
    return [root(a.raw) for a in atoms if a.kind is not AtomKind.MARK and a.text not in dropped]


def _negations(atoms: Sequence[Atom]) -> list[str]:
    return sorted(atom.text for atom in atoms if atom.text in NEGATORS or atom.text in ("not", "but"))
