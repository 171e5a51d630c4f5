"""Keys of remote services, which come from the environment and from nowhere else."""

from __future__ import annotations

import base64
import itertools
import os
import re

from docagent_rl.base.errors import UserError

NO_KEY = "none"
"""The key of servers that ask for none."""
HIDDEN = "[api key]"
"""The stand-in of a key in messages."""
# this many characters of a key in a row are hidden too
_TELLING = 8


def read_api_key(variable: str | None, setting: str) -> str:
    """Return the key in an environment variable, stripped; `NO_KEY` when no variable is named.

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
    """Hide the key in a text: whole, in pieces that would help to guess it, in any case, or in base64.

    Args:
        text: that a service may have written.
        key: `NO_KEY` leaves the text as it is.
    """
    if key == NO_KEY:
        return text
    if len(key) < _TELLING:
        return text.replace(key, HIDDEN)
    windows = {form[n : n + _TELLING] for form in _forms(key) for n in range(len(form) - _TELLING + 1)}
    anywhere = re.compile(f"(?={'|'.join(map(re.escape, windows))})", re.IGNORECASE | re.ASCII)
    hidden = {found.start() + n for found in anywhere.finditer(text) for n in range(_TELLING)}
    groups = itertools.groupby(enumerate(text), key=lambda pair: pair[0] in hidden)
    return "".join(HIDDEN if secret else "".join(char for _, char in group) for secret, group in groups)


def without_key(text: str, key: str) -> str:
    """Hide the key in a reply of a model. Short keys, such as `EMPTY`, are words that a reply may hold."""
    return text.replace(key, HIDDEN) if len(key) >= 2 * _TELLING else text


def _forms(key: str) -> list[str]:
    """Return the key, and its base64 at three places of a longer text where it may begin, without edges."""
    raw = key.encode("utf-8", "replace")
    packed = (base64.b64encode(b"\0" * shift + raw).decode("ascii") for shift in range(3))
    inner = (form[4 if shift else 0 :].rstrip("=")[:-1] for shift, form in enumerate(packed))
    return [key, *(form for form in inner if len(form) >= _TELLING)]
