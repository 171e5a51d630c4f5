"""Extraction of the values that a reward function returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.rewards.custom.signature import CallStyle
from docagent_rl.rewards.finite import is_finite


class ResultError(ValueError):
    """A reward function returned something that is not a reward; the message says what."""


def numbers_of(result: Any, style: CallStyle, name: str) -> dict[str, float]:
    """Return the values for one trajectory by term: the reward as `name`, others as `name.KEY`.

    Booleans count as 0 and 1. Other values that are not numbers, such as texts, are left out.

    Raises:
        ResultError: there is no reward, or one of the numbers is not finite.
    """
    if style is CallStyle.EASYR1_BATCH:
        result = _only(result)
    if not isinstance(result, Mapping):
        if style is not CallStyle.VERL:
            raise ResultError(f"returned {_kind(result)}, not a dictionary with {style.main!r}")
        return {name: _reward(result, name, f"a number, or a dictionary with {style.main!r}")}
    if style.main not in result:
        keys = ", ".join(map(repr, result)) or "nothing"
        raise ResultError(f"returned a dictionary without {style.main!r}; it has {keys}")
    found = {name: _reward(result[style.main], name, f"a number as {style.main!r}")}
    for key, value in result.items():
        if key == style.main or (number := as_number(value)) is None:
            continue
        found[f"{name}.{key}"] = _finite(number, f"{name}.{key}")
    return found


def _only(result: Any) -> Any:
    """Return the only result for a list of inputs, which had one input."""
    if isinstance(result, str) or not isinstance(result, Sequence):
        raise ResultError(f"returned {_kind(result)}, not a list with one dictionary per input")
    if len(result) != 1:
        raise ResultError(f"returned a list of {len(result)} results for 1 input")
    return result[0]


def _reward(value: Any, name: str, expected: str) -> float:
    number = as_number(value)
    if number is None:
        raise ResultError(f"returned {_kind(value)}, not {expected}")
    return _finite(number, name)


def _finite(number: float, name: str) -> float:
    if not is_finite(number):
        raise ResultError(f"the term {name!r} is {number}: a reward must be a finite 32-bit number")
    return number


def as_number(value: Any) -> float | None:
    """Convert a value, also of numpy or torch, to a number; `None` if it is not one, such as a
    text.
    """
    if value is None or isinstance(value, str | bytes):
        return None
    try:
        return float(value)
    # torch raises RuntimeError for a tensor with several elements
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def _kind(value: Any) -> str:
    return "None" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"
