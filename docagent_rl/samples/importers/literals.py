"""Lists that were written into a text field, as JSON or as Python prints them."""

from __future__ import annotations

import ast
import json
import warnings
from typing import Any, NoReturn

LONGEST = 100_000
"""Characters of a text that is parsed: a longer one is no list of answers or pages."""


def parse_literal(text: str) -> Any:
    """Return the value that a text spells: JSON, else a literal of Python (`"['Chart']"`), not evaluated.

    Returns:
        Text, a number, true, false, None, or a list or dict of these; tuples become lists.

    Raises:
        ValueError: it spells no such value, or is longer than `LONGEST`.
    """
    if len(text) > LONGEST:
        raise ValueError(f"a text of {len(text)} characters is not parsed")
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes in other people's texts
            return _plain(ast.literal_eval(text.strip()))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"not a literal: {text[:80]!r}") from error


def as_list(value: Any) -> list[Any]:
    """Return a list that may have been written as text.

    Raises:
        ValueError: it is neither a list nor the text of one.
    """
    found = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise ValueError(f"not a list: {str(value)[:80]!r}")
    return list(found)


def as_texts(value: Any) -> list[str]:
    """Return a list of texts and numbers as texts, numbers as JSON writes them.

    Raises:
        ValueError: it is no such list.
    """
    items = as_list(value)
    if not all(isinstance(item, str) or type(item) in (int, float) for item in items):
        raise ValueError(f"not a list of texts: {str(value)[:80]!r}")
    return [item if isinstance(item, str) else json.dumps(item) for item in items]


def as_pages(value: Any) -> list[int]:
    """Return a list of page numbers: integers, their digits as text, or floats that are whole.

    Raises:
        ValueError: it is no such list.
    """
    return [_page(item) for item in as_list(value)]


def _page(item: Any) -> int:
    if type(item) is int or (isinstance(item, float) and item.is_integer()):
        return int(item)
    if isinstance(item, str) and item.strip().isascii() and item.strip().isdecimal() and len(item) < 10:
        return int(item)
    raise ValueError(f"not a page number: {str(item)[:80]!r}")


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    raise ValueError(f"a {type(value).__name__} has no place in a sample")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)
