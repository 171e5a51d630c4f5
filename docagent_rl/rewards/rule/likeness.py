"""The places where an answer says the same as a reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docagent_rl.rewards.rule.atoms import Atom, AtomKind
from docagent_rl.rewards.rule.claims import Question
from docagent_rl.rewards.rule.quantities import Quantity
from docagent_rl.rewards.rule.units import PERCENT, SHARE
from docagent_rl.rewards.rule.words import ARTICLES, GRAMMAR, NUMBERED, SUFFIXES, TITLES, root

_FEWEST_IN_SENTENCE = 2
_TITLES = TITLES | SUFFIXES


def content(atoms: Sequence[Atom]) -> list[Atom]:
    """Return the atoms without marks and articles; all of them where nothing else is there."""
    kept = [a for a in atoms if a.kind is not AtomKind.MARK and not a.is_article]
    return kept or list(atoms)


def forms(reference: Sequence[Atom], question: Question) -> list[list[Atom]]:
    """Return the ways in which a reference may be said, the fullest first."""
    full = content(reference)
    found = [full, *([atom for atom in full if atom.text not in idle] for idle in (question.nouns, _TITLES))]
    commas = [i for i, atom in enumerate(reference) if atom.text == ","]
    if len(commas) == 1 and all(atom.is_capital for atom in full):
        found.append(content([*reference[commas[0] + 1 :], *reference[: commas[0]]]))
    return [form for i, form in enumerate(found) if form and form not in found[:i]]


def spans(form: Sequence[Atom], said: Sequence[Atom], question: Question) -> Iterator[tuple[int, int]]:
    """Yield where a form stands in an answer: the first of its atoms and the one behind its last."""
    at = 0
    while at < len(said):
        end = _match(form, said, at, question)
        if end:
            yield at, end
        at = end or at + 1


def same_sentence(reference: Sequence[Atom], said: Sequence[Atom], question: Question) -> bool:
    """Whether an answer says a sentence in other forms of the same words, in their order.

    Words of the question may be missing or stand beside them, and none that denies.
    """
    if any(atom.kind not in (AtomKind.WORD, AtomKind.MARK) for atom in (*reference, *said)):
        return False
    wanted, given = ([w for w in _roots(atoms) if w not in question.roots] for atoms in (reference, said))
    return len(wanted) >= _FEWEST_IN_SENTENCE and wanted == given


def same_quantity(wanted: Quantity, given: Quantity, question: Question) -> bool:
    """Whether two amounts are the same, by their units or by the unit that the question names."""
    if (wanted.unit is None) == (given.unit is None):
        return wanted.equals(given)
    if PERCENT in (wanted.unit, given.unit) and _same_share(wanted, given):
        return True
    if (wanted.value, wanted.high) != (given.value, given.high):
        return False
    unit = wanted.unit or given.unit
    if unit in question.units:
        return True
    if wanted.unit is not None or unit is None or unit.kind == SHARE:
        return False
    # a unit that was not asked for is extra, unless something else was asked for
    return not question.counts and all(other.kind != unit.kind for other in question.units)


def _same_share(wanted: Quantity, given: Quantity) -> bool:
    percent, plain = (wanted, given) if wanted.unit == PERCENT else (given, wanted)
    is_range = percent.high is not None or plain.high is not None
    return not is_range and 0 < abs(plain.value) < 1 and plain.value * 100 == percent.value


def _match(form: Sequence[Atom], said: Sequence[Atom], at: int, question: Question) -> int:
    """Return where a form that begins at a place ends; 0 where it does not."""
    start, number = at, 0
    while number < len(form):
        if at >= len(said):
            return 0
        if _same(form, number, said, at, question):
            number += 1
        elif at == start or not _may_skip(said[at]):
            return 0
        at += 1
    return at


def _may_skip(atom: Atom) -> bool:
    return atom.kind is AtomKind.MARK or atom.is_article or atom.text == "of" or atom.text in TITLES


def _same(form: Sequence[Atom], number: int, said: Sequence[Atom], at: int, question: Question) -> bool:
    wanted, given = form[number], said[at]
    if wanted.quantity and given.quantity:
        return _same_number(form, number, said, at, question)
    if wanted.kind is AtomKind.DATE and given.kind is AtomKind.DATE:
        # one that can be read in two ways is right only where both are: 03/04/2021
        return all(any(one.holds(other) for one in wanted.dates) for other in given.dates)
    if wanted.quantity and given.kind is AtomKind.DATE and wanted.quantity.is_year:
        return all(date.year == wanted.quantity.value for date in given.dates)
    if {wanted.kind, given.kind} == {AtomKind.ORDINAL, AtomKind.QUANTITY}:
        ordinal, amount = (wanted, given) if wanted.kind is AtomKind.ORDINAL else (given, wanted)
        plain = amount.quantity
        is_number = plain is not None and plain.unit is None and plain.high is None
        return is_number and plain.value == ordinal.value and len(form) == 1 and not question.counts
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
    if label in NUMBERED and label != own and label not in asked:
        return False
    if (named or asked) and "page" not in (label, own, *asked) and "." in wanted.digits + given.digits:
        return wanted.digits == given.digits
    return same_quantity(wanted, given, question)


def _roots(atoms: Sequence[Atom]) -> list[str]:
    return [root(a.raw) for a in atoms if a.kind is not AtomKind.MARK and a.text not in GRAMMAR | ARTICLES]
