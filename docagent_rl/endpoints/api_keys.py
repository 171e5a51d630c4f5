"""Keys of remote services, which come from the environment and from nowhere else."""

from __future__ import annotations

import base64
import itertools
import os
import string

from docagent_rl.base.errors import UserError

NO_KEY = "none"
"""What is sent to servers that ask for no key."""
HIDDEN = "[api key]"
"""What stands for a key in messages."""
# this many characters of a key in a row are hidden too
_TELLING = 8
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def read_api_key(variable: str | None, setting: str) -> str:
    """The key in an environment variable, without blanks around it; `NO_KEY` when no variable is named.

    Args:
        variable: name of the variable.
        setting: the configuration key that names it, for the message.

    Raises:
        UserError: the variable is not set, or no header could carry its value, which is not repeated.
    """
    if variable is None:
        return NO_KEY
    # files of secrets end in a line feed
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"{setting}: the environment variable {variable} is not set")
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{setting}: the environment variable {variable} holds characters that no key has: control "
            "characters, or others than ASCII"
        )
    return key


def redacted(text: str, key: str) -> str:
    """The text without the key: whole, in pieces that would help to guess it, in any case, or in base64.

    Args:
        text: that a service may have written.
        key: `NO_KEY` leaves the text as it is.
    """
    if key == NO_KEY:
        return text
    if len(key) < _TELLING:
        return text.replace(key, HIDDEN)
    seen, spellings = text.translate(_LOWER), [form.translate(_LOWER) for form in _forms(key)]
    hidden = bytearray(len(text))
    for form in spellings:
        windows = {form[start : start + _TELLING] for start in range(len(form) - _TELLING + 1)}
        for start in range(len(text) - _TELLING + 1):
            if seen[start : start + _TELLING] in windows:
                hidden[start : start + _TELLING] = b"\1" * _TELLING
    pieces = (
        HIDDEN if secret else "".join(character for _, character in group)
        for secret, group in itertools.groupby(zip(hidden, text, strict=True), key=lambda pair: pair[0])
    )
    return "".join(pieces)


def without_key(text: str, key: str) -> str:
    """A model's reply without the key. Short keys, such as `EMPTY`, are words that a reply may hold."""
    return text.replace(key, HIDDEN) if len(key) >= 2 * _TELLING else text


def _forms(key: str) -> list[str]:
    """The key and its base64 at the three places in a longer text where it may begin, without the edges."""
    raw = key.encode("utf-8", "replace")
    packed = (base64.b64encode(b"\0" * shift + raw).decode("ascii") for shift in range(3))
    inner = (form[4 if shift else 0 :].rstrip("=")[:-1] for shift, form in enumerate(packed))
    return [key, *(form for form in inner if len(form) >= _TELLING)]
