"""Sentences: those that state the facts of a unit, and filler between them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from decimal import Decimal

from docagent_rl.lab.synth.lexicon import LEXICON, Attribute, Measure, ValueKind, sentence_case
from docagent_rl.lab.synth.model import Fact


def format_number(value: float | Decimal, decimals: int) -> str:
    """Return a number as reports print it, with commas between thousands: `1,240` or `34.2`."""
    return f"{value:,.{decimals}f}"


def distinct_numbers(rng: random.Random, measure: Measure, count: int) -> list[str]:
    """Draw `count` different values of a measure, as printed."""
    scale = 10**measure.decimals
    steps = rng.sample(range(round(measure.low * scale), round(measure.high * scale) + 1), count)
    return [format_number(step / scale, measure.decimals) for step in steps]


def attribute_fact(
    rng: random.Random, attribute: Attribute, words: Mapping[str, object], *, place: str, with_decoy: bool
) -> Fact:
    """Draw the value of `attribute` and put it into words.

    Args:
        rng: of the document.
        attribute: with its templates.
        words: `unit`, `company` and `year`, which fill the templates.
        place: the value of an attribute that is a place.
        with_decoy: state the figure of another year too, which is never equal to the value.
    """
    value, decoy = _value(rng, attribute), _value(rng, attribute)
    while decoy == value and attribute.kind is not ValueKind.PLACE:
        decoy = _value(rng, attribute)
    if attribute.kind is ValueKind.PLACE:
        value = place
    elif attribute.kind is ValueKind.YEAR:
        decoy = str(int(value) + rng.randint(3, 12))  # a renovation comes after the opening
    slots = {**words, "Unit": sentence_case(str(words["unit"])), "value": value, "decoy": decoy}
    statement = attribute.statement.format(**slots)
    if with_decoy and attribute.decoy:
        statement += " " + attribute.decoy.format(**slots)
    return Fact(value, statement, tuple(question.format(**slots) for question in attribute.questions))


def _value(rng: random.Random, attribute: Attribute) -> str:
    match attribute.kind:
        case ValueKind.CODE:
            letters = "".join(rng.choice("ABCDEFGHKLMNPRSTUVWXYZ") for _ in range(2))
            return f"{letters}-{rng.randint(1000, 9999)}"
        case ValueKind.YEAR:
            return str(rng.randint(int(attribute.low), int(attribute.high)))
        case ValueKind.NUMBER:
            return format_number(rng.uniform(attribute.low, attribute.high), attribute.decimals)
        case ValueKind.PLACE:
            return ""


def paragraph(rng: random.Random, subject: str, sentences: int) -> str:
    """Write up to ten sentences about `subject`, without a digit in them."""
    filler = LEXICON.filler
    opener = f"{rng.choice(filler.openers)}, {rng.choice(filler.reasons)}."
    # no topic twice in one paragraph: it would read like a stutter
    topics = rng.sample(filler.topics, len(filler.topics))
    templates = [opener, *rng.sample(filler.followers, min(sentences - 1, len(filler.followers)))]
    return sentence_case(" ".join(_fill(rng, template, subject, topics) for template in templates))


def _fill(rng: random.Random, template: str, subject: str, topics: list[str]) -> str:
    while "{topic}" in template:
        template = template.replace("{topic}", topics.pop(), 1)
    while "{adjective}" in template:
        template = template.replace("{adjective}", rng.choice(LEXICON.filler.adjectives), 1)
    return template.replace("{subject}", subject)
