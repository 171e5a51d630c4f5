"""Truncation of texts to token budgets, with an estimate if there is no tokenizer."""

import re
from collections.abc import Callable

TokenCounter = Callable[[str], int]
"""A function that returns the number of tokens of a text."""

_PIECE = re.compile(r"[A-Za-z]{1,4}|[^\sA-Za-z]")
_FOREIGN = re.compile(r"[^\s\x00-\x7f]")
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, erring on the high side for large tokenizers.

    Up to four Latin letters count as one token, a digit or punctuation mark as one, and any other
    character as two.
    """
    return len(_PIECE.findall(text)) + len(_FOREIGN.findall(text))


def cut_to_tokens(text: str, limit: int, count: TokenCounter) -> str:
    """Return the longest prefix of `text` with at most `limit` tokens, including the ellipsis.

    `count` is assumed to grow with the text.
    """
    if count(text) <= limit:
        return text
    fit = _largest(len(text), lambda size: count(text[:size] + _ELLIPSIS) <= limit)
    return text[:fit].rstrip() + _ELLIPSIS if fit else ""


def cut_middle(text: str, limit: int, count: TokenCounter) -> str:
    """Return a prefix and a suffix of `text`, equally long, with at most `limit` tokens in
    total.
    """
    if count(text) <= limit:
        return text
    fit = _largest(len(text) // 2, lambda size: count(_ends(text, size)) <= limit)
    return _ends(text, fit) if fit else ""


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest size up to `most` that fits, by bisection.

    Do not change the order of the sizes that it tries: recorded texts depend on it.
    """
    low = 0
    high = most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def cut_to_chars(text: str, limit: int) -> str:
    """Return a prefix of `text` with at most `limit` characters, including the ellipsis."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + _ELLIPSIS


def _ends(text: str, size: int) -> str:
    return f"{text[:size]} {_ELLIPSIS} {text[len(text) - size :]}"
