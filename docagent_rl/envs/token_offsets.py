"""Counting of tokens in many parts of one text, which is tokenised only once."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from docagent_rl.base.text import encodable

_FAR = 16
"""Number of characters between a cut and the border that counts for it, at least: a tokenizer may
look ahead a little.
"""


class TokenizerCounter:
    """A `TokenCounter` with a tokenizer of the package `tokenizers`.

    Special tokens in a text count as one token each; none are added.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, text: str) -> int:
        """Return the number of tokens of a text."""
        return len(self._tokenizer.encode(encodable(text), add_special_tokens=False))

    def places(self, text: str) -> list[tuple[int, int]]:
        """Return the first character of each token, and the one after its last."""
        return self._tokenizer.encode(encodable(text), add_special_tokens=False).offsets


class CutText:
    """A text of which a prefix and a suffix are kept, with something in between.

    The tokenizers of our models split a text before a single space that a letter or a digit
    follows, whatever else it contains. For a cut, only the characters between it and such a border
    are tokenised again; the tokens beyond are those of the whole text. Nobody proves that for every
    tokenizer, so the caller counts the text that it chooses as a whole.
    """

    def __init__(self, text: str, counter: TokenizerCounter) -> None:
        self.text = text
        self._counter = counter
        self._places = counter.places(text)

    @property
    def tokens(self) -> int:
        """The number of tokens of the whole text."""
        return len(self._places)

    def count(self, prefix: int, between: str, suffix: int = 0) -> int:
        """Return the number of tokens of the first `prefix` characters, `between`, and the last
        `suffix` characters, which do not overlap.
        """
        begin = len(self.text) - suffix
        first, before = self._border_before(prefix - _FAR)
        last, until = self._border_after(begin + _FAR)
        ends = self.text[first:prefix] + between + self.text[begin:last]
        return before + self._counter(ends) + self.tokens - until

    def _border_before(self, place: int) -> tuple[int, int]:
        """Return the last border up to a place, and the number of tokens before it."""
        while (place := self.text.rfind(" ", 0, max(0, place + 1))) > 0:
            if (before := self._tokens_before(place)) is not None:
                return place, before
            place -= 1
        return 0, 0

    def _border_after(self, place: int) -> tuple[int, int]:
        """Return the first border from a place on, and the number of tokens before it."""
        while (place := self.text.find(" ", place)) > 0:
            if (before := self._tokens_before(place)) is not None:
                return place, before
            place += 1
        return len(self.text), self.tokens

    def _tokens_before(self, place: int) -> int | None:
        """Return the number of tokens before the space at a place; None if it is no border."""
        if self.text[place - 1].isspace() or not self.text[place + 1 : place + 2].isalnum():
            return None
        before = bisect_left(self._places, (place, 0))
        return before if before and self._places[before - 1][1] <= place else None
