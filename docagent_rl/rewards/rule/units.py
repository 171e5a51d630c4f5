"""Units of measurement, by pint, and of money, by a table."""

from __future__ import annotations

import functools
import math
import re
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pint

_TOLERANCE = 2e-3
"""Relative; conversions are printed rounded."""
PHYSICAL, MONEY, SHARE = "physical", "money", "share"


class Unit(NamedTuple):
    """A unit by its kind and pint's expression, its ISO 4217 code, or the name of a share."""

    kind: str
    name: str


PERCENT = Unit(SHARE, "percent")
_SHARES = {
    "percent": ("%", "per cent", "pct"), "point": ("percentage point", "percentage points", "pp"),
    "basis point": ("basis points", "bps"), "permille": ("\u2030",),
}  # fmt: skip
_MONEY = {
    "USD": ("$", "us$", "dollar", "dollars", "us dollars"), "AUD": ("a$", "au$"), "CAD": ("c$", "ca$"),
    "HKD": ("hk$",), "NZD": ("nz$",), "SGD": ("s$",), "BRL": ("r$",), "EUR": ("\u20ac", "euro", "euros"),
    "GBP": ("\u00a3", "pounds sterling"), "JPY": ("\u00a5", "yen"), "CNY": ("rmb", "yuan", "renminbi"),
    "INR": ("\u20b9", "rs", "rs.", "rupee", "rupees"), "KRW": ("\u20a9", "won"), "CHF": ("swiss francs",),
    "SEK": (), "NOK": (), "DKK": (), "RUB": ("\u20bd", "roubles", "rubles"), "TRY": ("\u20ba",), "ZAR": (),
    "MXN": (), "VND": ("\u20ab",), "THB": ("\u0e3f",),
}  # fmt: skip
_NAMED = {
    spelled: Unit(kind, name)
    for kind, table in ((SHARE, _SHARES), (MONEY, _MONEY))
    for name, spellings in table.items()
    for spelled in (name.casefold(), *spellings)
}
_RESPELT = {
    "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "sqm": "m**2", "sqft": "ft**2", "sqkm": "km**2",
    "l": "liter", "kilo": "kg", "kilos": "kg", "kgs": "kg", "kms": "km", "hrs": "hour", "hr": "hour",
    "mins": "minute", "secs": "second", "yrs": "year", "yr": "year", "lbs": "pound", "mos": "month",
    "\u00b0c": "degC", "\u00b0f": "degF", "\u00b0": "degree", "cc": "cm**3", "\"": "inch",
}  # fmt: skip
# pint reads thousands of words as units, "chain" and "cup" among them: only these count
_KNOWN = frozenset({
    "meter", "gram", "second", "minute", "hour", "day", "week", "month", "year", "liter", "inch", "foot",
    "yard", "mile", "pound", "ounce", "metric_ton", "ton", "watt", "volt", "ampere", "ohm", "hertz",
    "byte", "bit", "joule", "calorie", "kelvin", "degree_Celsius", "degree_Fahrenheit", "gallon", "acre",
    "hectare", "pascal", "bar", "psi", "newton", "degree", "watt_hour", "mile_per_hour",
    "kilometer_per_hour", "nautical_mile", "knot", "lumen", "lux", "mole", "horsepower",
    "british_thermal_unit", "decade", "century", "ampere_hour", "micron", "electron_volt",
    "pound_force_per_square_inch", "pixel", "fluid_ounce", "quart", "pint", "tonne", "metric_horsepower",
    "sievert",
})  # fmt: skip
_NOT_UNITS = frozenset({"in", "a", "at", "d", "as", "c", "f", "b", "e", "u", "bars", "may", "us", "am", "pm"})

_PHRASES = "|".join(map(re.escape, sorted(filter(lambda name: " " in name, _NAMED), reverse=True)))
_WORD = r"[^\W\d_]+(?:\^?[23](?!\w))?"
_SPELLING = re.compile(
    rf"[ \u00a0]?-?(?P<unit>[%\u2030\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd$]|\u00b0 ?[CF](?!\w)|\u00b0"
    rf"|degrees? (?:celsius|fahrenheit|centigrade)|(?:{_PHRASES})(?!\w)|[a-z]*watt[- ]hours?"
    rf"|(?:(?:square|sq\.?|cubic|cu\.?) ?)?{_WORD}(?:(?: ?/ ?| per ){_WORD})?)",
    re.IGNORECASE,
)
_PER = re.compile(r" ?/ ?| per ", re.IGNORECASE)
_DEGREES = re.compile(r"degrees? ([cf])\w+|\u00b0 ?([cf])", re.IGNORECASE)
_HOURS = re.compile(r"watt[- ]hours?")
_SIDE = re.compile(r"(?:(?:(sq)(?:uare|\.)?|(cu)(?:bic|\.)?)[ .]+)?([^ .\d^]+)(?:\^?([23]))?", re.IGNORECASE)


def unit_at(text: str, at: int) -> tuple[Unit, int] | None:
    """Return the unit that stands at a place, directly or after one blank or hyphen, and where it ends."""
    found = _SPELLING.match(text, at)
    if not found:
        return None
    # all of "km per hour", or "km" alone
    for spelled in dict.fromkeys((found["unit"], _PER.split(found["unit"])[0])):
        end = found.start("unit") + len(spelled)
        if spelled[-1].isalnum() and text[end : end + 1].isalnum():
            continue
        if unit := unit_of(spelled):
            return unit, end
    return None


@functools.lru_cache(maxsize=4096)
def unit_of(spelled: str) -> Unit | None:
    """Return the unit that a spelling means; case decides between MW and mW."""
    low = " ".join(spelled.casefold().split())
    if low in _NAMED:
        return _NAMED[low]
    if low in _NOT_UNITS and spelled not in ("A", "F"):
        return None
    names = [_physical(side.strip()) for side in _PER.split(spelled)]
    if None in names:
        return None
    return Unit(PHYSICAL, str(_registry().parse_units("/".join(f"({name})" for name in names))))


def same_amount(
    value: Decimal | None, unit: Unit | None, other_value: Decimal | None, other: Unit | None
) -> bool:
    """Compare two amounts: exactly in one unit (or none), up to rounding after a conversion."""
    if unit == other or value is None or other_value is None:
        return value == other_value
    if unit is None or other is None or (unit.kind, other.kind) != (PHYSICAL, PHYSICAL):
        return False
    left, right = _registry().parse_units(unit.name), _registry().parse_units(other.name)
    if left.dimensionality != right.dimensionality:
        return False
    converted = _registry().Quantity(float(value), left).to(right).magnitude
    return math.isclose(converted, float(other_value), rel_tol=_TOLERANCE)


def _physical(side: str) -> str | None:
    """Return pint's expression for a spelling such as `sq ft`, `m2`, `m^2` or `kW`."""
    side = _DEGREES.sub(lambda degrees: "\u00b0" + (degrees[1] or degrees[2]), side)
    side = _HOURS.sub("watt_hour", side.casefold()) if _HOURS.search(side.casefold()) else side
    found = _SIDE.fullmatch(side)
    if not found:
        return None
    spelled, low = found[3], found[3].casefold().replace("\u03bc", "\u00b5")
    power = 2 if found[1] else 3 if found[2] else found[4]
    name = _RESPELT.get(low) or _known(spelled) or _known(low)
    return f"({name})**{power}" if name and power else name


def _known(spelled: str) -> str | None:
    if not spelled.replace("\u00b5", "u").replace("_", "").isalpha():
        return None
    parsed = _registry().parse_unit_name(spelled)
    return f"{parsed[0][0]}{parsed[0][1]}" if parsed and parsed[0][1] in _KNOWN else None


@functools.cache
def _registry() -> pint.UnitRegistry:
    # takes a quarter of a second, which those who judge otherwise need not spend
    import pint

    return pint.UnitRegistry()
