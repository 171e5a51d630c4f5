"""Page text as it is shown to an agent."""

from __future__ import annotations

import re

from docagent_rl.retrieval.tokens import UNSPACED

_LETTERS_A_TOKEN = 4
# digits, characters of scripts without spaces and marks one by one; runs of letters; runs of line breaks
_PIECE = re.compile(rf"[{UNSPACED}]|\d|[^\W\d_{UNSPACED}]+|\n+|[^\w\s]|_")


def cut_text(text: str, max_tokens: int) -> str:
    """The beginning of a text, at most so many tokens long.

    Environments know no tokenizer, so tokens are estimated: one for every digit, mark and character of a
    script without spaces, one for every four letters of a word begun, one for a run of line breaks. Words are
    kept whole.
    """
    used = 0
    for piece in _PIECE.finditer(text):
        letters = len(piece[0])
        used += -(-letters // _LETTERS_A_TOKEN) if piece[0][0].isalpha() else 1
        if used > max_tokens:
            return text[: piece.start()].rstrip()
    return text
