"""Reading lists of page numbers, in time linear in their length."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SEPARATORS = re.compile(r"[,\s]+")
_MAX_DIGITS = 12


@dataclass(frozen=True, slots=True)
class PageList:
    """What a list of page numbers holds.

    Args:
        pages: the whole numbers in order, each once; whether such pages exist is not asked here.
        strays: number of items that are no whole numbers, or absurdly long ones.
    """

    pages: tuple[int, ...] = ()
    strays: int = 0


def read_page_list(text: str) -> PageList:
    """Read `[3, 7]`, `3, 7` or `3 7`: brackets are optional, commas and blanks separate."""
    body = text.strip()
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    items = [item for item in _SEPARATORS.split(body) if item]
    numbers = [int(item) for item in items if _is_number(item)]
    return PageList(tuple(dict.fromkeys(numbers)), len(items) - len(numbers))


def _is_number(item: str) -> bool:
    digits = item.removeprefix("-")
    # ASCII only, and no longer than what int() reads at once
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
