"""Units of measurement, by pint, and of money, by a table."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pint

_TOLERANCE = 2e-3
"""Relative; conversions are printed rounded."""


class UnitKind(StrEnum):
    """What a unit measures."""

    PHYSICAL = "physical"
    MONEY = "money"
    SHARE = "share"


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit.

    Args:
        kind: what it measures.
        name: pint's expression, an ISO 4217 code, or the name of a share.
    """

    kind: UnitKind
    name: str


PERCENT = Unit(UnitKind.SHARE, "percent")
_SHARES = {
    "%": PERCENT, "percent": PERCENT, "per cent": PERCENT, "pct": PERCENT,
    "percentage point": Unit(UnitKind.SHARE, "point"), "percentage points": Unit(UnitKind.SHARE, "point"),
    "percent points": Unit(UnitKind.SHARE, "point"), "pp": Unit(UnitKind.SHARE, "point"),
    "basis points": Unit(UnitKind.SHARE, "basis point"), "bps": Unit(UnitKind.SHARE, "basis point"),
    "\u2030": Unit(UnitKind.SHARE, "permille"), "permille": Unit(UnitKind.SHARE, "permille"),
}  # fmt: skip
_MONEY = {
    "$": "USD", "us$": "USD", "usd": "USD", "dollar": "USD", "dollars": "USD", "us dollars": "USD",
    "a$": "AUD", "au$": "AUD", "aud": "AUD", "c$": "CAD", "ca$": "CAD", "cad": "CAD", "hk$": "HKD",
    "hkd": "HKD", "nz$": "NZD", "nzd": "NZD", "s$": "SGD", "sgd": "SGD", "\u20ac": "EUR", "eur": "EUR",
    "euro": "EUR", "euros": "EUR", "\u00a3": "GBP", "gbp": "GBP", "pounds sterling": "GBP", "\u00a5": "JPY",
    "jpy": "JPY", "yen": "JPY", "cny": "CNY", "rmb": "CNY", "yuan": "CNY", "renminbi": "CNY",
    "\u20b9": "INR", "inr": "INR", "rs": "INR", "rs.": "INR", "rupee": "INR", "rupees": "INR",
    "\u20a9": "KRW", "krw": "KRW", "won": "KRW", "chf": "CHF", "swiss francs": "CHF", "sek": "SEK",
    "nok": "NOK", "dkk": "DKK", "\u20bd": "RUB", "rub": "RUB", "roubles": "RUB", "rubles": "RUB",
    "\u20ba": "TRY", "brl": "BRL", "r$": "BRL", "zar": "ZAR", "mxn": "MXN", "\u20ab": "VND", "\u0e3f": "THB",
}  # fmt: skip
_CENTS = {"cent", "cents", "\u00a2"}

_RESPELT = {
    "kmh": "km/h", "kph": "km/h", "kmph": "km/h", "sqm": "m**2", "sqft": "ft**2", "sqkm": "km**2",
    "l": "liter", "kilo": "kg", "kilos": "kg", "kgs": "kg", "kms": "km",
    "hrs": "hour", "hr": "hour", "mins": "minute",
    "secs": "second", "yrs": "year", "yr": "year", "lbs": "pound", "mos": "month",
    "\u00b0c": "degC", "\u00b0f": "degF", "\u00b0": "degree", "m": "m", "s": "s", "cc": "cm**3", "\"": "inch",
}  # fmt: skip
# pint reads thousands of words as units, "chain" and "cup" among them: only these count
_KNOWN = frozenset({
    "meter", "gram", "second", "minute", "hour", "day", "week", "month", "year", "liter", "inch", "foot",
    "yard", "mile", "pound", "ounce", "metric_ton", "ton", "watt", "volt", "ampere", "ohm", "hertz", "byte",
    "bit", "joule", "calorie", "kelvin", "degree_Celsius", "degree_Fahrenheit", "gallon", "acre", "hectare",
    "pascal", "bar", "psi", "newton", "degree", "watt_hour", "mile_per_hour", "kilometer_per_hour",
    "nautical_mile", "knot", "lumen", "lux", "mole", "horsepower", "british_thermal_unit", "decade",
    "century", "ampere_hour", "micron", "electron_volt", "pound_force_per_square_inch", "pixel",
    "fluid_ounce", "quart", "pint", "tonne", "metric_horsepower", "sievert",
})  # fmt: skip
_NOT_UNITS = frozenset({"in", "a", "at", "d", "as", "c", "f", "b", "e", "u", "bars", "may", "us", "am", "pm"})

_LETTERS = r"[^\W\d_]+"
_POWER = r"(?:\^?[23](?!\w))?"
_SPELLING = re.compile(
    rf"[ \u00a0]?-?(?P<unit>%|\u2030|\u00b0 ?[CF](?!\w)|\u00b0|[\u00a2\u20ac\u00a3\u00a5\u20b9\u20a9\u20bd$]"
    rf"|degrees? (?:celsius|fahrenheit|centigrade)|per cent(?!\w)|(?:percentage|percent|basis) points?"
    rf"|(?:us dollars|swiss francs|pounds sterling)(?!\w)"
    rf"|(?:square|sq\.?|cubic|cu\.?) ?{_LETTERS}|kilowatt[- ]hours?|megawatt[- ]hours?|watt[- ]hours?"
    rf"|{_LETTERS}{_POWER}(?:(?: ?/ ?| per ){_LETTERS}{_POWER})?)",
    re.IGNORECASE,
)
_PER = re.compile(r" ?/ ?| per ", re.IGNORECASE)
_WORD_END = re.compile(r"(?!\w)")


def unit_at(text: str, at: int) -> tuple[Unit, int, Decimal] | None:
    """The unit that stands at a place, directly or after one blank or hyphen.

    Returns:
        The unit, where it ends, and what values in front of it are multiplied by; `None` without a unit.
    """
    found = _SPELLING.match(text, at)
    if not found:
        return None
    spelled = found["unit"]
    start = found.start("unit")
    tries = [spelled] if spelled == _PER.split(spelled)[0] else [spelled, _PER.split(spelled)[0]]
    for each in tries:
        end = start + len(each)
        if each[-1].isalnum() and not _WORD_END.match(text, end):
            continue
        if each.casefold() in _CENTS:
            return Unit(UnitKind.MONEY, "USD"), end, Decimal("0.01")
        if unit := unit_of(each):
            return unit, end, Decimal(1)
    return None


@functools.lru_cache(maxsize=4096)
def unit_of(spelled: str) -> Unit | None:
    """The unit that a spelling means; case decides between MW and mW."""
    low = " ".join(spelled.casefold().split())
    if low in _SHARES:
        return _SHARES[low]
    if low in _MONEY:
        return Unit(UnitKind.MONEY, _MONEY[low])
    if (low in _NOT_UNITS and spelled not in ("A", "F")) or len(low) > 40:
        return None
    name = _physical(spelled)
    return Unit(UnitKind.PHYSICAL, name) if name else None


def same_amount(value: Decimal, unit: Unit, other_value: Decimal, other: Unit) -> bool:
    """Whether two amounts are equal: exactly in one unit, up to rounding after a conversion."""
    if unit == other:
        return value == other_value
    if UnitKind.PHYSICAL is not unit.kind or UnitKind.PHYSICAL is not other.kind:
        # a pound is a weight or money
        pair = {unit, other}
        pounds = pair == {Unit(UnitKind.MONEY, "GBP"), Unit(UnitKind.PHYSICAL, "pound")}
        return pounds and value == other_value
    left, right = _registry().parse_units(unit.name), _registry().parse_units(other.name)
    if left.dimensionality != right.dimensionality or _is_angle(unit) != _is_angle(other):
        return False
    try:
        converted = _registry().Quantity(float(value), left).to(right).magnitude
    except (OverflowError, ArithmeticError):
        return False
    return math.isclose(converted, float(other_value), rel_tol=_TOLERANCE)


def _is_angle(unit: Unit) -> bool:
    """Angles and bits both have no dimension for pint."""
    return unit.name in ("degree", "radian")


def _physical(spelled: str) -> str | None:
    sides = [_power(side.strip()) for side in _PER.split(spelled)]
    names = [_name(*side) for side in sides]
    if any(name is None for name in names):
        return None
    return str(_registry().parse_units("/".join(f"({name})" for name in names)))


def _power(side: str) -> tuple[str, str]:
    """A spelling and its exponent: `sq ft`, `m2`, `m^2`."""
    words = re.split(r"[ .]+", side)
    head = words[0].casefold()
    if len(words) > 1 and head in ("square", "sq", "cubic", "cu"):
        return words[1], "**2" if head.startswith("sq") else "**3"
    if found := re.fullmatch(r"([^\d^]+)\^?([23])", side):
        return found[1], f"**{found[2]}"
    return side, ""


def _name(spelled: str, power: str) -> str | None:
    low = spelled.casefold().replace("\u03bc", "\u00b5")
    if found := re.fullmatch(r"degrees? (celsius|fahrenheit|centigrade)", low):
        return "degF" if found[1] == "fahrenheit" else "degC"
    if found := re.fullmatch(r"\u00b0 ?([cf])", low):
        return "degC" if found[1] == "c" else "degF"
    if found := re.fullmatch(r"(kilo|mega|)watt[- ]hours?", low):
        return f"{found[1]}watt_hour"
    if low in _RESPELT:
        respelt = _RESPELT[low]
        return (
            f"({respelt}){power}"
            if spelled.islower() or len(low) > 1 or low == "l"
            else _known(spelled, power)
        )
    return _known(spelled, power) or _known(low, power)


def _known(spelled: str, power: str) -> str | None:
    if not spelled.replace("\u00b5", "u").isalpha():
        return None
    parsed = _registry().parse_unit_name(spelled)
    if not parsed or parsed[0][1] not in _KNOWN:
        return None
    return f"{parsed[0][0]}{parsed[0][1]}{power}"


@functools.cache
def _registry() -> pint.UnitRegistry:
    # takes a quarter of a second, which those who judge otherwise need not spend
    import pint

    return pint.UnitRegistry(cache_folder=None)
