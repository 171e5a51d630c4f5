"""Exceptions as text that may be kept: without pictures, without what no file can hold."""

from __future__ import annotations

import re
import traceback

_BLOB = re.compile(r"[A-Za-z0-9+/_=-]{200,}")
"""Encoded pictures and the like; no path, word or identifier is as long."""
_LINE = 500
"""Characters of a line at most."""


def traceback_text(error: BaseException) -> str:
    """The traceback of an exception with those that caused it.

    Long runs of letters (base64) and long lines are cut, and characters that UTF-8 cannot write are escaped.
    """
    return clean("".join(traceback.format_exception(error)))


def last_lines(text: str, number: int = 3) -> str:
    """The end of a traceback: where it happened, and what."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-number:])


def clean(text: str) -> str:
    """Text without encoded pictures, overlong lines and lone surrogates."""
    short = _BLOB.sub(lambda found: f"[{len(found.group())} characters]", text)
    lines = [line if len(line) <= _LINE else f"{line[:_LINE]}…" for line in short.splitlines()]
    return "\n".join(lines).encode("utf-8", "backslashreplace").decode()
