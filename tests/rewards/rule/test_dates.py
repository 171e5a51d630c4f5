from __future__ import annotations

import pytest

from docagent_rl.rewards.rule.dates import Date, date_at, time_at


@pytest.mark.parametrize(
    ("text", "readings"),
    [
        ("3 April 2021", {Date(2021, 4, 3)}),
        ("Apr. 3rd, 2021", {Date(2021, 4, 3)}),
        ("2021-04-03", {Date(2021, 4, 3)}),
        ("03/04/2021", {Date(2021, 4, 3), Date(2021, 3, 4)}),
        ("25.12.2019", {Date(2019, 12, 25)}),
        ("March 2020", {Date(2020, 3, None)}),
        ("May 5", {Date(None, 5, 5)}),
        ("Monday, 5 July 2021", {Date(2021, 7, 5)}),
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
    assert Date(2020, 3, None).holds(Date(2020, 3, 5))
    assert not Date(2020, 3, 5).holds(Date(2020, 3, None))
