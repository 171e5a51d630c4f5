"""Keeping texts within token budgets where no tokenizer is at hand."""

import re
from collections.abc import Callable

TokenCounter = Callable[[str], int]
"""Number of tokens of a text."""

_PIECE = re.compile(r"[A-Za-z]{1,4}|[^\sA-Za-z]")
_FOREIGN = re.compile(r"[^\s\x00-\x7f]")
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def estimated_tokens(text: str) -> int:
    """Return a cautious estimate of a text's tokens, meant to lie above what large tokenizers need.

    Four letters of the Latin alphabet a token; digits and punctuation one each; two for other
    characters.
    """
    return len(_PIECE.findall(text)) + len(_FOREIGN.findall(text))


def cut_to_tokens(text: str, limit: int, count: TokenCounter) -> str:
    """Return the longest beginning of `text` of at most `limit` tokens, the ellipsis of a cut
    included.

    `count` is taken to grow with the text.
    """
    if count(text) <= limit:
        return text
    fit = _largest(len(text), lambda size: count(text[:size] + _ELLIPSIS) <= limit)
    return text[:fit].rstrip() + _ELLIPSIS if fit else ""


def cut_middle(text: str, limit: int, count: TokenCounter) -> str:
    """Return the beginning and end of `text`, alike in length, that together have at most `limit`
    tokens.
    """
    if count(text) <= limit:
        return text
    fit = _largest(len(text) // 2, lambda size: count(_ends(text, size)) <= limit)
    return _ends(text, fit) if fit else ""


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest size up to `most` that fits, by halving; recorded texts rest on what it
    tries.
    """
    low = 0
    high = most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def cut_to_chars(text: str, limit: int) -> str:
    """Return the beginning of `text`, at most `limit` characters with the ellipsis that marks a
    cut.
    """
    return text if len(text) <= limit else text[: limit - 1].rstrip() + _ELLIPSIS


def _ends(text: str, size: int) -> str:
    return f"{text[:size]} {_ELLIPSIS} {text[len(text) - size :]}"
