"""Text that files and tokenizers take: without lone surrogates, and exceptions without pictures.

A lone surrogate is half of a character, which Python holds in a string and no file takes. They come from
escapes in JSON and YAML (half of a pair), from file names, damaged fonts and models.
"""

from __future__ import annotations

import re
import traceback

_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{200,}")
"""Encoded pictures and the like; no path, word or identifier is as long."""
_LINE = 500
"""Characters of a line at most."""


def encodable(text: str) -> str:
    """Return the text with a question mark in the place of each lone surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def lone_surrogate(text: str) -> str | None:
    """Return the first lone surrogate as an escape, for messages; None when there is none."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        return ascii(error.object[error.start])
    return None


def traceback_text(error: BaseException) -> str:
    """Return the traceback of an exception with those that caused it, cleaned."""
    return clean("".join(traceback.format_exception(error)))


def clean(text: str) -> str:
    """Return text without encoded pictures, overlong lines and lone surrogates."""
    short = _BLOB.sub(lambda found: f"[{len(found.group())} characters]", text)
    lines = [line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in short.splitlines()]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()
