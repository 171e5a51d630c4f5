"""Truncation of texts to token budgets, with an estimate if there is no tokenizer."""

import re
from collections.abc import Callable

from docagent_rl.envs.token_offsets import CutText, TokenizerCounter

TokenCounter = Callable[[str], int]
"""A function that returns the number of tokens of a text. With a `TokenizerCounter`, texts are cut
after one tokenisation of them; with any other, each size that is tried is counted anew.
"""
Parts = Callable[[int], tuple[int, str, int]]
"""A function from a size to the characters of a prefix, a text, and the characters of a suffix."""

_PIECE = re.compile(r"[A-Za-z]{1,4}|[^\sA-Za-z]")
_FOREIGN = re.compile(r"[^\s\x00-\x7f]")
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_GAP = f" {_ELLIPSIS} "


def estimated_tokens(text: str) -> int:
    """Estimate the number of tokens of a text, erring on the high side for large tokenizers.

    Up to four Latin letters count as one token, a digit or punctuation mark as one, and any other
    character as two.
    """
    return len(_PIECE.findall(text)) + len(_FOREIGN.findall(text))


def cut_to_tokens(text: str, limit: int, count: TokenCounter) -> str:
    """Return the longest prefix of `text` with at most `limit` tokens, including the ellipsis.

    `count` is assumed to grow with the text; where it does not, the prefix fits, and with one more
    character it would not.
    """
    size = _size(text, len(text), limit, count, lambda size: (size, _ELLIPSIS, 0))
    if size is None:
        return text
    return text[:size].rstrip() + _ELLIPSIS if size else ""


def cut_middle(text: str, limit: int, count: TokenCounter) -> str:
    """Return a prefix and a suffix of `text`, equally long, with at most `limit` tokens in
    total.
    """
    size = _size(text, len(text) // 2, limit, count, lambda size: (size, _GAP, size))
    if size is None:
        return text
    return text[:size] + _GAP + text[len(text) - size :] if size else ""


def _size(text: str, most: int, limit: int, count: TokenCounter, parts: Parts) -> int | None:
    """Return the largest size up to `most` of which the parts fit; None if the whole text fits."""

    def fits(size: int) -> bool:
        prefix, between, suffix = parts(size)
        return count(text[:prefix] + between + text[len(text) - suffix :]) <= limit

    if not isinstance(count, TokenizerCounter):
        return None if count(text) <= limit else _largest(most, fits)
    whole = CutText(text, count)
    if whole.tokens <= limit:
        return None
    size = _largest(most, lambda size: whole.count(*parts(size)) <= limit)
    # a tokenizer may join words, so the chosen text is counted as a whole
    return size if not size or fits(size) else _largest(most, fits)


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
