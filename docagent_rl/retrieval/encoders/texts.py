"""Texts as models take them: without special tokens of strangers, cut to length, in passages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from docagent_rl.base.surrogates import encodable
from docagent_rl.retrieval.encoders.spec import PLACE

# tokenizers drop these and so join what they part
_BREAKS = dict.fromkeys(map(ord, "\0\x0b\x0c\x1c\x1d\x1e\x1f\x85"), " ")


class Texts:
    """What a tokenizer does to texts of pages and queries.

    Args:
        tokenizer: a fast one of transformers.
        others: tokens that a processor replaces, such as that of an image.
    """

    def __init__(self, tokenizer: Any, others: Iterable[str] = ()) -> None:
        self._tokenizer = tokenizer
        # added tokens that are not special may be words: Gemma's are "<table>" and runs of blanks
        added = (str(token) for token in tokenizer.added_tokens_decoder.values() if token.special)
        known = {*tokenizer.all_special_tokens, *added, *others}
        # longest first: one may begin another
        names = sorted((name for name in known if name.strip()), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, names))) if names else None

    def plain(self, text: str) -> str:
        """Return the text without special tokens: a query that spells that of an image stands for no image.

        Such a spelling is broken and not dropped, so that it makes another query here as well as for those
        who compare queries by their words.
        """
        text = encodable(text).translate(_BREAKS)
        return self._special.sub(_broken, text) if self._special else text

    def count(self, text: str) -> int:
        """Count the tokens of a text, special ones left out."""
        return len(self._offsets(text))

    def cut(self, text: str, room: int) -> str:
        """Return the beginning of a text: `room` tokens at most."""
        if len(text) <= room:  # a token has a character at least
            return text
        offsets = self._offsets(text)
        return text if len(offsets) <= room else text[: offsets[room - 1][1]]

    def passages(self, text: str, room: int, overlap: int) -> list[str]:
        """Return pieces that together are the text; none of a blank one.

        Args:
            text: of a page.
            room: tokens of a piece, at most.
            overlap: tokens that neighbours share, at least; fewer than `room`.
        """
        spans = self.spans(text, room, overlap)
        return [text[start:end] for start, end in spans if text[start:end].strip()]

    def spans(self, text: str, room: int, overlap: int) -> list[tuple[int, int]]:
        """Return first character of each passage, and the one behind its last; see `passages`."""
        encoded = self._encode(text)
        offsets, words = encoded["offset_mapping"], encoded.word_ids(0)
        if len(offsets) <= room:
            return [(0, len(text))]
        found, start, end = [], 0, 0
        while True:
            end = _word_start(words, min(start + room, len(offsets)), end + 1)
            found.append((offsets[start][0] if start else 0, offsets[end - 1][1]))
            if end == len(offsets):
                return found
            start = _word_start(words, end - overlap, start + 1)

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        return self._encode(text)["offset_mapping"]

    def _encode(self, text: str) -> Any:
        # the length is looked at here, so that the tokenizer need not warn about it
        return self._tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False
        )


def _broken(found: re.Match[str]) -> str:
    return f"{found[0][0]} {found[0][1:]}"


def _word_start(words: list[int | None], place: int, lowest: int) -> int:
    """Return the last place up to `place` where no word is split, or `place` in a word without end."""
    if place >= len(words):
        return len(words)
    for here in range(place, lowest - 1, -1):
        if words[here] is None or words[here] != words[here - 1]:
            return here
    return max(place, lowest)


def fill_prompt(prompt: str | None, text: str) -> str:
    """Return a text in its prompt."""
    if prompt is None:
        return text
    before, after = prompt.split(PLACE)
    return before + text + after
