"""Which sampled tokens carry which characters, without encoding anything again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]

_REPLACEMENT = "\ufffd"


def token_range(decode: Decode, token_ids: Sequence[int], span: tuple[int, int]) -> tuple[int, int] | None:
    """The tokens that carry a character span of the decoded turn.

    A token that straddles the border of the span belongs to it. The borders are found by bisection over
    decoded prefixes: `O(log t)` decodings of at most `t` tokens.

    Args:
        decode: ids to text, the decoding that the span refers to.
        token_ids: `(t,)` the sampled ids.
        span: half-open `[start, end)` in characters of `decode(token_ids)`.

    Returns:
        Half-open `[first, end)` token range; `None` when the span holds no character of the turn.
    """
    start, end = max(span[0], 0), min(span[1], len(decode(token_ids)))
    if start >= end:
        return None
    first = _bisect(decode, token_ids, lambda length: length > start) - 1
    last = _bisect(decode, token_ids, lambda length: length >= end)
    return first, last


def _bisect(decode: Decode, token_ids: Sequence[int], reached: Callable[[int], bool]) -> int:
    """The least number of tokens whose text is long enough."""
    low, high = 0, len(token_ids)
    while low < high:
        middle = (low + high) // 2
        if reached(_length(decode, token_ids[:middle])):
            high = middle
        else:
            low = middle + 1
    return low


def _length(decode: Decode, token_ids: Sequence[int]) -> int:
    """Characters that are complete; a character cut between two tokens decodes to replacement marks."""
    return len(decode(token_ids).rstrip(_REPLACEMENT))
