"""The field types of the canonical record and readers that turn decoded JSON into them.

Every reader raises `UserError` naming the field, the expected type and what was found.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import UserError

Box = tuple[float, float, float, float]
"""`(x0, y0, x1, y1)` as fractions of page width and height in [0, 1], origin at the top left."""


class Split(StrEnum):
    """The part of a dataset a question belongs to (a native `dev` is `val`)."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


class EvidenceSource(StrEnum):
    """Where evidence stands, in the words of MMLongBench-Doc."""

    TEXT = "Pure-text (Plain-text)"
    TABLE = "Table"
    CHART = "Chart"
    LAYOUT = "Generalized-text (Layout)"


def text(data: Mapping[str, Any], name: str) -> str:
    """A string."""
    if not isinstance(data[name], str):
        raise _type_error(name, "a string", data[name])
    return data[name]


def texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of strings."""
    value = data[name]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise _type_error(name, "a list of strings", value)
    return tuple(value)


def mapping(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(data[name], Mapping):
        raise _type_error(name, "an object", data[name])
    return dict(data[name])


def split(data: Mapping[str, Any], name: str) -> Split:
    """The name of a split."""
    try:
        return Split(data[name])
    except ValueError as error:
        names = ", ".join(member.value for member in Split)
        raise UserError(f"field '{name}' must be one of {names}, found {data[name]!r}") from error


def pages(data: Mapping[str, Any], name: str) -> tuple[int, ...]:
    """A list of integers."""
    value = data[name]
    # bool is an int in Python, and never a page
    if not isinstance(value, list | tuple) or not all(type(page) is int for page in value):
        raise _type_error(name, "a list of integers", value)
    return tuple(value)


def boxes(data: Mapping[str, Any], name: str) -> dict[int, tuple[Box, ...]]:
    """An object from page (integer, or its decimal string as JSON needs it) to a list of boxes."""
    value = data[name]
    if not isinstance(value, Mapping):
        raise _type_error(name, "an object from page to a list of boxes", value)
    result = {}
    for key, items in value.items():
        if not (type(key) is int or (isinstance(key, str) and key.isascii() and key.isdecimal())):
            raise UserError(f"field '{name}': key {key!r} is not a page number")
        result[int(key)] = box_list(f"{name}.{key}", items)
    return result


def box_list(name: str, value: Any) -> tuple[Box, ...]:
    """A list of boxes; `name` is the field in messages."""
    if not isinstance(value, list | tuple):
        raise _type_error(name, "a list of boxes", value)
    return tuple(_box(name, item) for item in value)


def optional_bool(data: Mapping[str, Any], name: str) -> bool | None:
    """True, false or null."""
    value = data[name]
    if value is not None and not isinstance(value, bool):
        raise _type_error(name, "true, false or null", value)
    return value


def _box(name: str, value: Any) -> Box:
    numbers = isinstance(value, list | tuple) and all(type(edge) in (int, float) for edge in value)
    if not (numbers and len(value) == 4 and all(map(math.isfinite, value))):
        raise _type_error(name, "made of boxes of four finite numbers", value)
    left, top, right, bottom = map(float, value)
    return left, top, right, bottom


def _type_error(name: str, expected: str, value: Any) -> UserError:
    return UserError(f"field '{name}' must be {expected}, found {type(value).__name__} {repr(value)[:80]}")
