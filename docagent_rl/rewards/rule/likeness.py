"""The places where an answer says the same as a reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from docagent_rl.rewards.rule.atoms import Atom, AtomKind
from docagent_rl.rewards.rule.claims import Question
from docagent_rl.rewards.rule.quantities import Quantity
from docagent_rl.rewards.rule.units import PERCENT, SHARE
from docagent_rl.rewards.rule.words import NUMBERED, SUFFIXES, TITLES

_TITLES = TITLES | SUFFIXES
_SKIPPED = TITLES | {"of"}


def content(atoms: Sequence[Atom]) -> list[Atom]:
    """Return the atoms without marks and articles; all of them where nothing else is there."""
    kept = [a for a in atoms if a.kind is not AtomKind.MARK and not a.is_article]
    return kept or list(atoms)


def forms(reference: Sequence[Atom], question: Question) -> list[list[Atom]]:
    """Return the ways in which a reference may be said, the fullest first."""
    full = content(reference)
    found = [full, *([atom for atom in full if atom.text not in idle] for idle in (question.nouns, _TITLES))]
    return [form for i, form in enumerate(found) if form and form not in found[:i]]


def spans(form: Sequence[Atom], said: Sequence[Atom], question: Question) -> Iterator[tuple[int, int]]:
    """Yield where a form stands in an answer: the first of its atoms and the one behind its last."""
    at = 0
    while at < len(said):
        end = _match(form, said, at, question)
        if end:
            yield at, end
        at = end or at + 1


def same_quantity(wanted: Quantity, given: Quantity, question: Question) -> bool:
    """Return whether two amounts are the same, by their units or by the unit that the question names."""
    if (wanted.unit is None) == (given.unit is None):
        return wanted.equals(given)
    if PERCENT in (wanted.unit, given.unit) and _same_share(wanted, given):
        return True
    if (wanted.value, wanted.high) != (given.value, given.high):
        return False
    extra = given.unit
    if (wanted.unit or extra) in question.units:
        return True
    # a currency or a measure that was not asked for is extra, unless something else was asked for
    if extra is None or extra.kind == SHARE or question.counts:
        return False
    return all(other.kind != extra.kind for other in question.units)


def _same_share(wanted: Quantity, given: Quantity) -> bool:
    percent, plain = (wanted, given) if wanted.unit == PERCENT else (given, wanted)
    is_range = percent.high is not None or plain.high is not None
    return not is_range and abs(plain.value) < 1 and plain.value * 100 == percent.value


def _match(form: Sequence[Atom], said: Sequence[Atom], at: int, question: Question) -> int | None:
    """Return where a form that begins at a place ends; `None` where it does not."""
    start, number = at, 0
    while number < len(form):
        if at >= len(said):
            return None
        if _same(form, number, said, at, question):
            number += 1
        elif at == start or not (
            said[at].kind is AtomKind.MARK or said[at].is_article or said[at].text in _SKIPPED
        ):
            return None
        at += 1
    return at


def _same(form: Sequence[Atom], number: int, said: Sequence[Atom], at: int, question: Question) -> bool:
    wanted, given = form[number], said[at]
    amount = wanted.quantity or given.quantity
    if wanted.quantity and given.quantity:
        own, label = form[number - 1].text if number else "", said[at - 1].text if at else ""
        asked = question.asked & NUMBERED
        if label in NUMBERED - {own} - asked:
            return False
        labels = NUMBERED & {own, label, *asked}
        # section 3.2 is not section 3.20
        if labels and "page" not in labels and "." in wanted.quantity.digits + given.quantity.digits:
            return wanted.quantity.digits == given.quantity.digits
        return same_quantity(wanted.quantity, given.quantity, question)
    if wanted.kind is AtomKind.DATE and given.kind is AtomKind.DATE:
        # one that can be read in two ways is right only where both are: 03/04/2021
        return all(any(one.holds(other) for one in wanted.dates) for other in given.dates)
    if amount and given.kind is AtomKind.DATE:
        years = [Quantity(Decimal(date.year)) for date in given.dates if date.year is not None]
        return bool(years) and all(map(amount.equals, years))
    if wanted.kind is not given.kind:
        return False
    if wanted.kind is AtomKind.TIME:
        return wanted.value == given.value
    return wanted.text == given.text and not given.is_article
