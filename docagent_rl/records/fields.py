"""The field types of the canonical record and readers that turn decoded JSON into them.

Every reader raises `UserError` naming the field, the expected type and what was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
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
    """The kind of content that is evidence, in the words of MMLongBench-Doc."""

    TEXT = "Pure-text (Plain-text)"
    TABLE = "Table"
    CHART = "Chart"
    LAYOUT = "Generalized-text (Layout)"


def text(name: str, value: Any) -> str:
    """Read a string."""
    if not isinstance(value, str):
        raise wrong_type(name, "a string", value)
    return value


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Read a list of strings."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise wrong_type(name, "a list of strings", value)
    return tuple(value)


def mapping(name: str, value: Any) -> dict[str, Any]:
    """Read an object."""
    if not isinstance(value, Mapping):
        raise wrong_type(name, "an object", value)
    return dict(value)


def split(name: str, value: Any) -> Split:
    """Read the name of a split."""
    try:
        return Split(value)
    except ValueError as error:
        raise UserError(f"field '{name}' must be one of {', '.join(Split)}, found {value!r}") from error


def pages(name: str, value: Any) -> tuple[int, ...]:
    """Read a list of integers."""
    # bool is an int in Python, and never a page
    if not isinstance(value, list | tuple) or not all(type(page) is int for page in value):
        raise wrong_type(name, "a list of integers", value)
    return tuple(value)


def boxes(name: str, value: Any) -> dict[int, tuple[Box, ...]]:
    """Read an object from page (integer, or its decimal string as JSON needs it) to a list of boxes."""
    if not isinstance(value, Mapping):
        raise wrong_type(name, "an object from page to a list of boxes", value)
    result = {}
    for key, items in value.items():
        if not (type(key) is int or is_digits(key)):
            raise UserError(f"field '{name}': key {key!r} is not a page number")
        result[int(key)] = box_list(f"{name}.{key}", items)
    return result


def box_list(name: str, value: Any) -> tuple[Box, ...]:
    """Read a list of boxes."""
    if not isinstance(value, list | tuple):
        raise wrong_type(name, "a list of boxes", value)
    return tuple(_box(name, item) for item in value)


def optional_bool(name: str, value: Any) -> bool | None:
    """Read true, false or null."""
    if value is not None and not isinstance(value, bool):
        raise wrong_type(name, "true, false or null", value)
    return value


READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "question_id": text,
    "dataset": text,
    "split": split,
    "doc_id": text,
    "question": text,
    "answers": texts,
    "answer_format": text,
    "evidence_pages": pages,
    "evidence_boxes": boxes,
    "evidence_sources": texts,
    "answerable": optional_bool,
    "extra": mapping,
}
"""Readers of a record's fields, each called with the name of the field and its value."""


def is_digits(text: Any) -> bool:
    """Return whether a value is a text of the digits 0 to 9."""
    return isinstance(text, str) and text.isascii() and text.isdecimal()


def box_problems(field: str, page: int | str, found: tuple[Box, ...]) -> list[str]:
    """Return what is wrong with the boxes of a page, one sentence a box."""
    return [
        f"field '{field}': box {list(box)} on page {page} must satisfy 0 <= x0 < x1 <= 1 and "
        "0 <= y0 < y1 <= 1"
        for box in found
        if not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1)
    ]


def wrong_type(name: str, expected: str, value: Any) -> UserError:
    """Return the error for a field of another type than expected."""
    return UserError(f"field '{name}' must be {expected}, found {type(value).__name__} {repr(value)[:80]}")


def _box(name: str, value: Any) -> Box:
    numbers = isinstance(value, list | tuple) and all(type(edge) in (int, float) for edge in value)
    if not (numbers and len(value) == 4 and all(map(math.isfinite, value))):
        raise wrong_type(name, "made of boxes of four finite numbers", value)
    left, top, right, bottom = map(float, value)
    return left, top, right, bottom
