from __future__ import annotations

from decimal import Decimal

import pytest

from docagent_rl.rewards.rule.units import same_amount, unit_at, unit_of


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sq ft", "square feet"),
        ("m2", "m^2"),
        ("cubic meters", "m3"),
        ("KG", "kg"),
    ],
)
def test_spellings_of_one_unit(one, other):
    assert unit_of(one) == unit_of(other) is not None


@pytest.mark.parametrize(
    ("one", "other"), [("MW", "mW"), ("MB", "Mb"), ("%", "percentage points"), ("$", "\u20ac"), ("kW", "kWh")]
)
def test_other_units(one, other):
    assert unit_of(one) != unit_of(other)


@pytest.mark.parametrize(
    "word", ["employees", "pages", "chain", "cup", "in", "at", "a", "stones", "", "x" * 99]
)
def test_words_that_are_no_units(word):
    assert unit_of(word) is None


def test_where_a_unit_ends():
    assert unit_at("12 kg of", 2) == (unit_of("kg"), 5)
    assert unit_at("12 kgs", 2)[0] == unit_of("kg")
    assert unit_at("12 people", 2) is None
    assert unit_at("12 kg2020", 2) is unit_at("12 kg5 x", 2) is None
    assert unit_at("12 km/h7", 2) == (unit_of("km"), 5)


@pytest.mark.parametrize(
    ("value", "unit", "other_value", "other", "same"),
    [
        ("1000", "g", "1", "kg", True),
        ("90", "minutes", "1.5", "hours", True),
        ("12.5", "kg", "27.56", "lb", True),
        ("1", "kg", "1", "km", False),
        ("8", "bit", "1", "byte", True),
        ("12.5", "kg", "12.51", "kg", False),
    ],
)
def test_conversion(value, unit, other_value, other, same):
    assert same_amount(Decimal(value), unit_of(unit), Decimal(other_value), unit_of(other)) is same
