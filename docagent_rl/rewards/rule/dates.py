"""Dates and times of day in text, by dateutil."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?(?!\w)"
_YEAR = r"[12][0-9]{3}(?!\w|[.,-][0-9])"
_WEEKDAY = re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)day,? +(?:the )?(?=[0-9a-z])", re.IGNORECASE)
_DATE = re.compile(
    rf"[12][0-9]{{3}}([-/.])[0-9]{{1,2}}\1[0-9]{{1,2}}(?![\w]|[-/.][0-9])"
    rf"|[0-9]{{1,2}}([-/.])[0-9]{{1,2}}\2[12][0-9]{{3}}(?![\w]|[-/.][0-9])"
    rf"|[12][0-9]{{3}}-(?:0[1-9]|1[0-2])(?![\w]|[-/.][0-9])"
    rf"|{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?"
    rf"|{_MONTH} {_DAY}(?:,? {_YEAR})?"
    rf"|{_MONTH},?(?: of)? {_YEAR}",
    re.IGNORECASE,
)
_TIME = re.compile(
    r"([01]?[0-9]|2[0-4])(?::([0-5][0-9])(?::[0-5][0-9])?(?: ?([ap])\.?m\b\.?)?| ?([ap])\.?m\b\.?)(?!\w)",
    re.IGNORECASE,
)
_PROBES = (datetime(2000, 1, 1), datetime(2004, 2, 2))


@dataclass(frozen=True, slots=True)
class Date:
    """A date of which the year, the month or the day may be missing."""

    year: int | None
    month: int | None
    day: int | None

    def holds(self, other: Date) -> bool:
        """Whether another date says all that this one says."""
        pairs = ((self.year, other.year), (self.month, other.month), (self.day, other.day))
        return all(mine is None or mine == theirs for mine, theirs in pairs)


def date_at(text: str, at: int) -> tuple[frozenset[Date], int] | None:
    """Return the date that begins at a place, and where it ends; both readings of one such as 03/04/2021."""
    weekday = _WEEKDAY.match(text, at)
    found = _DATE.match(text, weekday.end() if weekday else at)
    if not found:
        return None
    # a leading year is followed by the month
    orders = (False,) if found[0][:4].isdigit() else (False, True)
    readings = frozenset(filter(None, (_read(found[0], day_first) for day_first in orders)))
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
    return Date(
        one.year if one.year == two.year else None,
        one.month if one.month == two.month else None,
        one.day if one.day == two.day else None,
    )
