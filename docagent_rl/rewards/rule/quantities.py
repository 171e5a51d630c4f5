"""Numbers in text (digits, words, scales, units, ranges) and dates and times of day."""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from docagent_rl.rewards.rule.units import Unit, same_amount, unit_at, unit_of

_MAX_DIGITS = 28
"""Digits that Decimal keeps of a number."""
_CURRENCY = (
    r"(?:(?:us|au?|ca?|hk|nz|s|r)?\$|[\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd\u20ba\u20ab\u0e3f]"
    r"|(?:usd|eur|gbp|jpy|cny|rmb|inr|chf|cad|aud|hkd|nzd|sgd|krw|sek|nok|dkk|brl|zar|mxn|rs\.?)(?![^\W\d]))"
)
_DIGITS = (
    r"(?:(?P<european>[0-9]{1,3}(?:\.[0-9]{3})+,[0-9]+)"
    r"|(?P<grouped>[0-9]{1,3}(?:,[0-9]{2,3})*,[0-9]{3}(?:\.[0-9]+)?|[0-9]{1,3}(?:[' ][0-9]{3})+(?:\.[0-9]+)?)"
    r"|(?P<comma>[0-9]+,[0-9]{1,2})"
    r"|(?P<plain>[0-9]+(?:\.[0-9]+)?|\.[0-9]+))(?![0-9]|[.,][0-9])"
)
_NUMBER = re.compile(
    rf"(?P<sign>[-+](?=[0-9.]|{_CURRENCY}))?(?P<currency>{_CURRENCY} ?)?(?P<inner>[-+](?=[0-9.]))?{_DIGITS}",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    r"(?:(?P<whole>[0-9]{1,4}) )?(?P<top>[0-9]{1,4})/(?P<bottom>[1-9][0-9]{0,3})(?![\w/]|[.,][0-9])"
)
_LOSS = re.compile(rf"\((?P<inner>{_CURRENCY} ?[0-9][0-9.,]*)\)", re.IGNORECASE)

_ONES = (
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen"
    "|seventeen|eighteen|nineteen"
)
_TENS = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_POWERS = "hundred|thousand|million|billion|trillion"
_CARDINAL = rf"(?:{_ONES}|{_TENS}|{_POWERS})(?!\w)"
_WORDS = re.compile(rf"(?:a (?={_POWERS}))?{_CARDINAL}(?:(?:[- ]| and ){_CARDINAL}){{0,20}}", re.IGNORECASE)
_SCALES = {
    "hundred": 2, "thousand": 3, "k": 3, "lakh": 5, "million": 6, "mn": 6, "mio": 6, "mm": 6, "m": 6,
    "crore": 7, "billion": 9, "bn": 9, "b": 9, "trillion": 12, "tn": 12, "t": 12,
}  # fmt: skip
_SCALE = re.compile(
    r"(?P<gap>[ -]?)(?P<word>hundred|thousand|lakh|million|mn|mio|crore|billion|bn|trillion|tn|mm|[kmbt])s?"
    r"(?![\w/^])",
    re.IGNORECASE,
)
_TO = re.compile(r" ?- ?| (?:to|until|till|through|and) ", re.IGNORECASE)
_FROM = re.compile(r"(?:from|between) (?:the )?", re.IGNORECASE)


class Quantity(NamedTuple):
    """An amount, or a range of amounts.

    Args:
        value: the amount, scaled: 3.5 million is 3500000.
        unit: `None` for a mere number.
        high: the upper end of a range.
        digits: as printed, which tells section 3.2 from section 3.20.
    """

    value: Decimal
    unit: Unit | None = None
    high: Decimal | None = None
    digits: str = ""

    def equals(self, other: Quantity) -> bool:
        """Compare two amounts, both with a unit or both without."""
        ends = ((self.value, other.value), (self.high, other.high))
        return all(same_amount(one, self.unit, two, other.unit) for one, two in ends)


def quantity_at(text: str, at: int) -> tuple[Quantity, int] | None:
    """Return the amount or range that begins at a place, and where it ends."""
    opening = _FROM.match(text, at)
    low = _amount_at(text, opening.end() if opening else at)
    joint = _TO.match(text, low[1]) if low else None
    # "and" only joins what "between" opened
    if low and joint and (opening or joint[0].lower() != " and ") and (high := _amount_at(text, joint.end())):
        units = {low[0].unit, high[0].unit} - {None}
        if len(units) < 2:
            unit = next(iter(units), None)
            return low[0]._replace(unit=unit, high=high[0].value, digits=""), high[1]
    return None if opening else low


def _amount_at(text: str, at: int) -> tuple[Quantity, int] | None:
    if loss := _LOSS.match(text, at):
        inner = _amount_at(loss["inner"], 0)
        return (inner[0]._replace(value=-inner[0].value), loss.end()) if inner else None
    if fraction := _FRACTION.match(text, at):
        value = Decimal(fraction["top"]) / Decimal(fraction["bottom"]) + Decimal(fraction["whole"] or 0)
        return _with_unit(Quantity(value), text, fraction.end())
    if found := _NUMBER.match(text, at):
        return _written(found, text)
    return _worded(text, at)


def _written(found: re.Match[str], text: str) -> tuple[Quantity, int] | None:
    if found["european"]:
        digits = found["european"].replace(".", "").replace(",", ".")
    elif found["grouped"]:
        digits = re.sub("[,' ]", "", found["grouped"])
    else:
        digits = (found["comma"] or found["plain"]).replace(",", ".")
    if len(digits) > _MAX_DIGITS:
        return None
    value = Decimal(digits).copy_sign(-1 if "-" in (found["sign"], found["inner"]) else 1)
    unit = unit_of(found["currency"].strip()) if found["currency"] else None
    return _with_unit(Quantity(value, unit, digits=digits), text, found.end())


def _worded(text: str, at: int) -> tuple[Quantity, int] | None:
    found = _WORDS.match(text, at)
    if not found:
        return None
    from number_parser import parse_number

    number = parse_number(found[0].casefold().removeprefix("a "), language="en")
    if number is None:
        return None
    return _with_unit(Quantity(Decimal(number)), text, found.end())


def _with_unit(quantity: Quantity, text: str, end: int) -> tuple[Quantity, int]:
    quantity, end = _scaled(quantity, text, end)
    found = unit_at(text, end)
    if not found:
        return quantity, end
    unit, after = found
    # what follows $5 is no unit of it, unless it says the currency again
    if quantity.unit not in (None, unit):
        return quantity, end
    return quantity._replace(unit=unit), after


def _scaled(quantity: Quantity, text: str, end: int) -> tuple[Quantity, int]:
    """Read million and its like; single letters only where they cannot be metres, tonnes or bytes."""
    found = _SCALE.match(text, end)
    if not found:
        return quantity, end
    word = found["word"]
    is_short = len(word) == 1 or word.lower() == "mm"
    if is_short and quantity.unit is None and (found["gap"] or word not in "kKMB"):
        return quantity, end
    return quantity._replace(value=quantity.value.scaleb(_SCALES[word.lower()]), digits=""), found.end()


_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?(?!\w)"
_YEAR = r"[12][0-9]{3}(?!\w|[.,-][0-9])"
_END = r"(?![\w]|[-/.][0-9])"
_DATE = re.compile(
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? +(?:the )?)?(?P<date>"
    rf"[12][0-9]{{3}}([-/.])[0-9]{{1,2}}\2[0-9]{{1,2}}{_END}"
    rf"|[0-9]{{1,2}}([-/.])[0-9]{{1,2}}\3[12][0-9]{{3}}{_END}"
    rf"|[12][0-9]{{3}}-(?:0[1-9]|1[0-2]){_END}"
    rf"|{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?"
    rf"|{_MONTH} {_DAY}(?:,? {_YEAR})?"
    rf"|{_MONTH},?(?: of)? {_YEAR})",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"([01]?[0-9]|2[0-4])(?::([0-5][0-9])(?::[0-5][0-9])?(?: ?([ap])\.?m\b\.?)?| ?([ap])\.?m\b\.?)(?!\w)",
    re.IGNORECASE,
)
_PROBES = (datetime(2000, 1, 1), datetime(2004, 2, 2))

Date = tuple[int | None, int | None, int | None]
"""Year, month and day, of which some may be missing."""


def holds(one: Date, other: Date) -> bool:
    """Return whether another date says all that one says."""
    return all(mine is None or mine == theirs for mine, theirs in zip(one, other, strict=True))


def date_at(text: str, at: int) -> tuple[frozenset[Date], int] | None:
    """Return the date that begins at a place, and where it ends; both readings of one such as 03/04/2021."""
    found = _DATE.match(text, at)
    if not found:
        return None
    # a leading year is followed by the month
    orders = (False,) if found["date"][:4].isdigit() else (False, True)
    readings = frozenset(filter(None, (_read(found["date"], day_first) for day_first in orders)))
    return (readings, found.end()) if readings else None


def time_at(text: str, at: int) -> tuple[int, int] | None:
    """Return the time of day that begins at a place, in minutes after midnight, and where it ends."""
    found = _TIME.match(text, at)
    if not found:
        return None
    hour, half = int(found[1]), (found[3] or found[4] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    return hour * 60 + int(found[2] or 0), found.end()


def _read(span: str, day_first: bool) -> Date | None:
    """Return a date; what dateutil fills in from its default is missing."""
    from dateutil.parser import ParserError, parse

    try:
        one, two = (parse(span, dayfirst=day_first, default=probe) for probe in _PROBES)
    except (ParserError, OverflowError):
        return None
    year, month, day = (
        mine if mine == other else None
        for mine, other in zip(one.timetuple()[:3], two.timetuple()[:3], strict=True)
    )
    return year, month, day
