"""Lone surrogates: halves of characters, which Python holds in a string and no file or tokenizer takes.

They come from escapes in JSON and YAML (half of a pair), from file names, damaged fonts and models.
Text is checked where it enters and written so that one of them ends no run.
"""

from __future__ import annotations


def encodable(text: str) -> str:
    """The text with a question mark in the place of each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def lone_surrogate(text: str) -> str | None:
    """The first lone surrogate as an escape, for messages; None when there is none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return ascii(error.object[error.start])
    return None
