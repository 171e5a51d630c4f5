from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.rule.atoms import read
from docagent_rl.rewards.rule.words import fold


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("AB-1234", ["ab", "1234"]),
        ("Figure 3a", ["figure", "3a"]),
        ("3.2.1", ["3.2.1"]),
        ("14:00", ["14:00"]),
        ("https://www.acme.com/", ["acme", "com"]),
        ("C++", ["c++"]),
        ("Acme's", ["acme"]),
        ("5-7", ["5", "-", "7"]),
        ("5 - 7", ["5", "-", "7"]),
        ("between 5 and 7", ["5", "-", "7"]),
        ("5 to 7%", ["5", "-", "7", "percent"]),
        ("5% to 7%", ["5", "-", "7", "percent"]),
        ("60 miles per hour", ["60", "mile", "hour"]),
        ("60 mph", ["60", "mile", "hour"]),
        ("25 \u00b0C", ["25", "degree", "c"]),
        ("25 degrees Celsius", ["25", "degree", "c"]),
        ("7 m\u00b2", ["7", "square", "meter"]),
        ("7 sq m", ["7", "square", "meter"]),
        ("7 ft3", ["7", "cubic", "foot"]),
        ("10 kWh", ["10", "kilowatthour"]),
        ("10 kilowatt-hours", ["10", "kilowatthour"]),
        ("10 mW", ["10", "milliw"]),
        ("8 Mb", ["8", "mbit"]),
        ("5 ml", ["5", "milliliter"]),
        ("10:30 a.m.", ["10:30", "am"]),
        ("p. 12", ["page", "12"]),
        ("\u00a73.2", ["section", "3.2"]),
        ("5 sec", ["5", "second"]),
        ("3rd of April", ["april", "3"]),
        ("April 3rd", ["april", "3"]),
    ],
)
def test_atoms(text, expected):
    assert [atom.text for atom in read(fold(text))] == expected


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("1,234.50", "1234.5", None), ("1'000", "1000", None), ("3.5M", "3500000", None), (".5",
        "0.5", None),
        ("-$5", "-5", "usd"), ("($1,200)", "-1200", "usd"), ("US$5", "5", "usd"), ("Rs. 5", "5",
        "inr"),
        ("5 euros", "5", "eur"), ("EUR 5", "5", "eur"), ("$3bn", "3000000000", "usd"),
        ("$5m", "5000000", "usd"), ("2k", "2000", None), ("3 trillion", "3000000000000", None),
        ("two million dollars", "2000000", "usd"),
        ("twelve hundred", "1200", None), ("twenty-five", "25", None), ("zero", "0", None),
        ("one hundred and "
         "five", "105", None), ("three hundred forty-two", "342", None), ("3/4", "3/4", None),
        ("5 m", "5", "meter"), ("5m", "5", "meter"), ("12 percent", "12", "percent"),
        ("9" * 40, "9" * 40, None),
    ],
)  # fmt: skip
def test_numbers(text, value, unit):
    number, *units = read(text)
    assert number.number == Fraction(value)
    assert [atom.text for atom in units] == ([unit] if unit else [])


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("3 April 2021", {date(2021, 4, 3)}),
        ("Apr. 3rd, 2021", {date(2021, 4, 3)}),
        ("2021-04-03", {date(2021, 4, 3)}),
        ("03/04/2021", {date(2021, 4, 3), date(2021, 3, 4)}),
        ("25.12.2019", {date(2019, 12, 25)}),
        ("Monday, 5 July 2021", {date(2021, 7, 5)}),
    ],
)
def test_dates(text, days):
    [atom] = read(fold(text))
    assert atom.days == days


@pytest.mark.parametrize(
    "text", ["May", "31 February 2020", "2021-04-03-05", "12/13", "April 2021"]
)
def test_no_dates(text):
    assert not any(atom.days for atom in read(fold(text)))


@given(st.text(max_size=80))
def test_any_text_is_read(text):
    atoms = read(text)
    assert all(atom.raw in text for atom in atoms)
    assert atoms or not any(char.isalnum() and char.isascii() for char in text)


def test_what_opens_a_sentence():
    opening = [atom.raw for atom in read("It was. Oslo? Yes, Rome\nBonn") if atom.opens]
    assert opening == ["It", "Oslo", "Yes", "Bonn"]
