"""The policy of every HTTP client of ours.

No redirect is followed, for it would take what is sent, a prompt or a key, to an address that nobody named. A
reply has a time in which it has to be whole. Keys come from the environment alone. Messages hold no key
(`redacted`) and name addresses by `public_url`.
"""

import logging
import os
import re
from urllib.parse import urlsplit, urlunsplit

from docagent_rl.base.errors import UserError

_LOGS = {"openai._base_client": logging.INFO, "httpx2": logging.WARNING, "httpcore2": logging.INFO}
"""Below these levels the loggers write addresses with their passwords, reason phrases and headers of replies,
and those of some versions whole request bodies, page images included."""
NO_KEY = "none"
"""The key of servers that ask for none."""
HIDDEN = "[api key]"
"""The stand-in of a key in messages."""
_TELLING = 16


def public_url(url: str) -> str:
    """Return the address without what may be secret in it: user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_url(url: str | None, setting: str) -> str:
    """Return the address without slashes at its end.

    Raises:
        UserError: it is no address of HTTP; the message names the setting and holds no secret of it.
    """
    try:
        parts = urlsplit(url or "")
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not (url and good):
        raise UserError(f"{setting}={public_url(url or '')}: expected an address such as http://host:port")
    return url.rstrip("/")


def keep_logs_clean() -> None:
    """Silence what the libraries under our clients write about requests."""
    for logger, level in _LOGS.items():
        logging.getLogger(logger).setLevel(max(logging.getLogger(logger).level, level))


def read_api_key(variable: str | None, setting: str) -> str:
    """Return the key in an environment variable, stripped; `NO_KEY` when no variable is named.

    Raises:
        UserError: the variable is not set, or no header could carry its value, which is not repeated; the
            message names the setting.
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
    """Hide the key in a message, in any case."""
    return text if key == NO_KEY else re.sub(re.escape(key), HIDDEN, text, flags=re.IGNORECASE)


def without_key(body: bytes, key: str) -> bytes:
    """Hide the key in a reply of a model. Short keys, such as `EMPTY`, are words that a reply may hold."""
    return body.replace(key.encode(), HIDDEN.encode()) if len(key) >= _TELLING else body
