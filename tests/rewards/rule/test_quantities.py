from __future__ import annotations

from decimal import Decimal

import pytest

from docagent_rl.rewards.rule.quantities import date_at, holds, quantity_at, time_at
from docagent_rl.rewards.rule.units import unit_of


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("1,234.50", "1234.5", None),
        ("1.234,56", "1234.56", None),
        ("12,5", "12.5", None),
        ("1,00,000", "100000", None),
        ("3.5M", "3500000", None),
        ("-$5", "-5", "$"),
        ("($1,200)", "-1200", "$"),
        ("3/4", "0.75", None),
        ("1 1/2", "1.5", None),
        ("one hundred and five", "105", None),
        ("two million dollars", "2000000", "usd"),
        ("5 M", "5", "m"),
        ("0 hundred", "0", None),
        ("5 m long", "5", "m"),
        ("5 in Oslo", "5", None),
    ],
)
def test_amounts(text, value, unit):
    quantity, _ = quantity_at(text, 0)
    assert quantity.value == Decimal(value)
    assert quantity.high is None
    assert quantity.unit == (unit_of(unit) if unit else None)


@pytest.mark.parametrize("text", ["10-20 kg", "10 to 20 kg", "between 10 and 20 kg", "from 10 kg to 20 kg"])
def test_ranges(text):
    quantity, end = quantity_at(text, 0)
    assert (quantity.value, quantity.high, quantity.unit) == (10, 20, unit_of("kg"))
    assert end == len(text)


def test_a_list_is_no_range():
    assert quantity_at("10 and 20", 0)[0].high is None
    assert quantity_at("10, 20", 0)[0].high is None


def test_no_amount():
    assert quantity_at("Lisbon", 0) is None
    assert quantity_at("9" * 28, 0)[0].value == Decimal("9" * 28)
    assert quantity_at("9" * 29, 0) is None


@pytest.mark.parametrize(
    ("zeros", "scales"),
    {
        2: "hundred", 3: "thousand k", 5: "lakh", 6: "million mn mio mm m", 7: "crore", 9: "billion bn b",
        12: "trillion tn t",
    }.items(),
)  # fmt: skip
def test_scales(zeros, scales):
    for scale in scales.split():
        quantity, end = quantity_at(f"$3 {scale}", 0)
        assert (quantity.value, end) == (Decimal(3).scaleb(zeros), 3 + len(scale))


@pytest.mark.parametrize(("text", "end"), [("$5 dollars", 10), ("$5 kg", 2), ("10 kg - 20 lb", 5)])
def test_what_belongs_to_an_amount(text, end):
    assert quantity_at(text, 0)[1] == end


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("3 April 2021", {(2021, 4, 3)}),
        ("Apr. 3rd, 2021", {(2021, 4, 3)}),
        ("2021-04-03", {(2021, 4, 3)}),
        ("03/04/2021", {(2021, 4, 3), (2021, 3, 4)}),
        ("25.12.2019", {(2019, 12, 25)}),
        ("March 2020", {(2020, 3, None)}),
        ("May 5", {(None, 5, 5)}),
        ("Monday, 5 July 2021", {(2021, 7, 5)}),
    ],
)
def test_dates(text, readings):
    assert date_at(text, 0) == (frozenset(readings), len(text))


@pytest.mark.parametrize("text", ["May", "1999-2003", "31 February 2020", "12", "3.5", "2020-21"])
def test_no_dates(text):
    assert date_at(text, 0) is None


@pytest.mark.parametrize(
    ("text", "minutes"), [("2 pm", 840), ("14:00", 840), ("12:30 a.m.", 30), ("10:30am", 630)]
)
def test_times(text, minutes):
    assert time_at(text, 0) == (minutes, len(text))


def test_a_date_holds_a_finer_one():
    assert holds((2020, 3, None), (2020, 3, 5))
    assert not holds((2020, 3, 5), (2020, 3, None))
