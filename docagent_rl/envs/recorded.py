"""Parsing of single values in a trajectory file, which may contain anything.

Each function returns `None`, or an empty value, if the recorded value is of another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from docagent_rl.actions.base import Span
from docagent_rl.actions.coordinates import Raster
from docagent_rl.base.errors import UserError
from docagent_rl.documents import Box, PageRef
from docagent_rl.documents.settings import Size


def mapping(value: object) -> Mapping[str, Any]:
    """Return a recorded object; an empty mapping for anything else."""
    return value if isinstance(value, Mapping) else {}


def listing(value: object) -> list[Any] | tuple[Any, ...]:
    """Return a recorded list; an empty one for anything else."""
    return value if isinstance(value, list | tuple) else ()


def text_of(value: object) -> str | None:
    """Return a recorded text."""
    return value if isinstance(value, str) else None


def whole_of(value: object) -> int | None:
    """Return a recorded integer; booleans do not count."""
    return value if type(value) is int else None


def number_of(value: object) -> float | None:
    """Return a recorded number; booleans do not count."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def flag_of(value: object) -> bool | None:
    """Return a recorded boolean."""
    return value if isinstance(value, bool) else None


def page_of(value: object) -> PageRef | None:
    """Return a recorded page, written `doc#page`."""
    return _parsed(value) if isinstance(value, str) else None


@lru_cache(maxsize=1 << 14)  # a run names the same pages over and over
def _parsed(text: str) -> PageRef | None:
    try:
        return PageRef.parse(text)
    except (UserError, ValueError):  # int() raises ValueError for thousands of digits
        return None


def box_of(value: object) -> Box | None:
    """Return a recorded box of four numbers."""
    numbers = listing(value)
    if len(numbers) != 4 or not all(isinstance(each, int | float) for each in numbers):
        return None
    return numbers[0], numbers[1], numbers[2], numbers[3]


def raster_of(value: object) -> Raster | None:
    """Return a recorded rectangle in pixels: four integers."""
    sides = listing(value)
    if [type(side) for side in sides] != [int] * 4:
        return None
    return sides[0], sides[1], sides[2], sides[3]


def size_of(value: object) -> Size | None:
    """Return a recorded width and height: two integers."""
    sides = listing(value)
    return (sides[0], sides[1]) if [type(side) for side in sides] == [int, int] else None


def span_of(value: object) -> Span | None:
    """Return a recorded range of characters: two integers."""
    return size_of(value)
