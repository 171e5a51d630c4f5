"""Values and the sentences that state them."""

from __future__ import annotations

import random
from decimal import Decimal

from docagent_rl.lab.synth.lexicon import Attribute, ValueKind
from docagent_rl.lab.synth.model import Fact, Measure


def sentence_case(text: str) -> str:
    """`text` with its first letter in upper case and the rest as it is."""
    return text[0].upper() + text[1:]


def format_number(value: float | Decimal, decimals: int) -> str:
    """A number as reports print it, with commas between thousands: `1,240` or `34.2`."""
    return f"{value:,.{decimals}f}"


def distinct_numbers(rng: random.Random, measure: Measure, count: int) -> list[str]:
    """`count` different values of a measure, as printed."""
    scale = 10**measure.decimals
    steps = rng.sample(range(round(measure.low * scale), round(measure.high * scale) + 1), count)
    return [format_number(step / scale, measure.decimals) for step in steps]


def attribute_fact(
    rng: random.Random,
    attribute: Attribute,
    *,
    unit: str,
    company: str,
    year: int,
    place: str = "",
    with_decoy: bool = False,
) -> Fact:
    """Draw the value of `attribute` for `unit` and put it into words.

    `unit` is a phrase such as "the Brenoka division"; `place` is the value of an attribute that is a place.
    With `with_decoy` the statement also holds the figure of another year, which is never equal to the value.
    """
    value, decoy = _value(rng, attribute), _value(rng, attribute)
    while decoy == value and attribute.kind is not ValueKind.PLACE:
        decoy = _value(rng, attribute)
    if attribute.kind is ValueKind.PLACE:
        value = place
    elif attribute.kind is ValueKind.YEAR:
        decoy = str(int(value) + rng.randint(3, 12))  # a renovation comes after the opening
    words = {"unit": unit, "Unit": sentence_case(unit), "company": company, "year": year}
    slots = {**words, "value": value, "decoy": decoy}
    statement = attribute.statement.format(**slots)
    if with_decoy and attribute.decoy:
        statement += " " + attribute.decoy.format(**slots)
    return Fact(value, statement, tuple(question.format(**slots) for question in attribute.questions))


def _value(rng: random.Random, attribute: Attribute) -> str:
    if attribute.kind is ValueKind.CODE:
        letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWXYZ") for _ in range(2))
        return f"{letters}-{rng.randint(1000, 9999)}"
    if attribute.kind is ValueKind.YEAR:
        return str(rng.randint(int(attribute.low), int(attribute.high)))
    if attribute.kind is ValueKind.PLACE:
        return ""
    value = rng.uniform(attribute.low, attribute.high)
    return format_number(value, attribute.decimals)
