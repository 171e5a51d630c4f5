"""The field types of the canonical sample, and what is wrong with a value of another type."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, TypeGuard

from pydantic import AllowInfNan, BeforeValidator, Strict, ValidationError

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


def is_digits(text: Any) -> TypeGuard[str]:
    """Return whether a value is a text of the digits 0 to 9, nine at most."""
    return isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 10


def as_whole(value: Any) -> Any:
    """Return a text of digits, or a float without a fraction, as an integer; anything else as it is."""
    text = value.strip() if isinstance(value, str) else value
    return int(text) if is_digits(text) or (isinstance(text, float) and text.is_integer()) else value


def _key(key: Any) -> Any:
    """Return a page number from its decimal string, as JSON needs it for keys."""
    return int(key) if is_digits(key) else key


PageKey = Annotated[int, Strict(), BeforeValidator(_key)]
_Edge = Annotated[float, Strict(), AllowInfNan(False)]
Boxes = tuple[tuple[_Edge, _Edge, _Edge, _Edge], ...]


def type_problems(error: ValidationError, *field: str) -> list[str]:
    """Return one sentence a problem, each naming its place (within `field`, if any) and the value."""
    problems = []
    for each in error.errors(include_url=False):
        place, value = ".".join(str(part)[:80] for part in (*field, *each["loc"])), each["input"]
        found = "" if each["type"] == "missing" else f", found {type(value).__name__} {repr(value)[:80]}"
        where = f"field '{place}': " if place else ""
        problems.append(f"{where}{each['msg']}{found}")
    return problems


def box_problems(field: str, page: int | str, found: tuple[Box, ...]) -> list[str]:
    """Return what is wrong with the boxes of a page, one sentence a box."""
    return [
        f"field '{field}': box {list(box)} on page {page} must satisfy 0 <= x0 < x1 <= 1 and "
        "0 <= y0 < y1 <= 1"
        for box in found
        if not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1)
    ]
