"""The field types of the canonical sample, and their values from decoded JSON.

Readers raise `UserError` naming the field, the expected type and what was found.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    AllowInfNan,
    BeforeValidator,
    Strict,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

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


def is_digits(text: Any) -> bool:
    """Return whether a value is a text of the digits 0 to 9."""
    return isinstance(text, str) and text.isascii() and text.isdecimal()


def _page(key: Any) -> Any:
    """Return a page number from its decimal string, as JSON needs it for keys."""
    return int(key) if is_digits(key) else key


_Page = Annotated[int, Strict(), BeforeValidator(_page)]
_Edge = Annotated[float, Strict(), AllowInfNan(False)]
_Boxes = tuple[tuple[_Edge, _Edge, _Edge, _Edge], ...]
_Texts = tuple[StrictStr, ...]
_TYPES: Mapping[str, tuple[Any, str]] = {
    "question_id": (StrictStr, "a string"),
    "dataset": (StrictStr, "a string"),
    "split": (Split, f"one of {', '.join(Split)}"),
    "doc_id": (StrictStr, "a string"),
    "question": (StrictStr, "a string"),
    "answers": (_Texts, "a list of strings"),
    "answer_format": (StrictStr, "a string"),
    "evidence_pages": (tuple[StrictInt, ...], "a list of integers"),
    "evidence_boxes": (dict[_Page, _Boxes], "an object from page to a list of boxes of four finite numbers"),
    "evidence_sources": (_Texts, "a list of strings"),
    "answerable": (StrictBool | None, "true, false or null"),
    "extra": (dict[Any, Any], "an object"),
}
FIELDS = tuple(_TYPES)
"""The names of a sample's fields, in their order."""
_ADAPTERS = {name: TypeAdapter(kind) for name, (kind, _) in _TYPES.items()}
_BOX_LIST = TypeAdapter(_Boxes)


def read(name: str, value: Any) -> Any:
    """Return the value of a field of a sample from decoded JSON."""
    try:
        return _ADAPTERS[name].validate_python(value)
    except ValidationError as error:
        place = error.errors()[0]["loc"][:1] if name == "evidence_boxes" else ()
        raise wrong_type(
            ".".join([name, *(str(each)[:40] for each in place)]), _TYPES[name][1], value
        ) from None


def box_list(name: str, value: Any) -> tuple[Box, ...]:
    """Return a list of boxes; `name` is the field in messages."""
    try:
        return _BOX_LIST.validate_python(value)
    except ValidationError:
        raise wrong_type(name, "a list of boxes of four finite numbers", value) from None


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
