"""The places where an answer says the same as a reference."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from docagent_rl.rewards.rule.atoms import Atom
from docagent_rl.rewards.rule.claims import Question
from docagent_rl.rewards.rule.quantities import Quantity, holds
from docagent_rl.rewards.rule.units import PERCENT, SHARE
from docagent_rl.rewards.rule.words import NUMBERED, SUFFIXES, TITLES


def forms(reference: Sequence[Atom], question: Question) -> list[list[Atom]]:
    """Return the ways in which a reference may be said, the fullest first."""
    found = [
        [atom for atom in reference if atom.text not in idle]
        for idle in ((), question.nouns, TITLES | SUFFIXES)
    ]
    return [form for i, form in enumerate(found) if form and form not in found[:i]]


def spans(form: Sequence[Atom], said: Sequence[Atom], question: Question) -> list[range]:
    """Return where a form stands in an answer."""
    return [
        range(at, at + len(form))
        for at in range(len(said) - len(form) + 1)
        if all(_same(form, i, said, at + i, question) for i in range(len(form)))
    ]


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


def _same(form: Sequence[Atom], number: int, said: Sequence[Atom], at: int, question: Question) -> bool:
    wanted, given = form[number], said[at]
    amount = wanted.quantity
    if amount and given.quantity:
        own, label = form[number - 1].text if number else "", said[at - 1].text if at else ""
        asked = question.asked & NUMBERED
        if label in NUMBERED - {own} - asked:
            return False
        labels = NUMBERED & {own, label, *asked}
        # section 3.2 is not section 3.20
        if labels and "page" not in labels and "." in amount.digits + given.quantity.digits:
            return amount.digits == given.quantity.digits
        return same_quantity(amount, given.quantity, question)
    if wanted.dates and given.dates:
        # one that can be read in two ways is right only where both are: 03/04/2021
        return all(any(holds(one, other) for one in wanted.dates) for other in given.dates)
    if amount and given.dates:
        years = [Quantity(Decimal(year)) for year, _, _ in given.dates if year is not None]
        return bool(years) and all(map(amount.equals, years))
    if wanted.value is None and given.value is None:
        return wanted.text == given.text
    return isinstance(wanted.value, int) and wanted.value == given.value
