"""The policy of all our HTTP clients, for services that may send anything, anywhere, for ever.

Redirects are not followed, since they would take a prompt or a key to an address that nobody
configured. Replies must not be compressed, have a maximum length, and must be complete within a
time limit. Keys come only from the environment. Messages contain no key (`redacted`) and show
addresses by `public_url`.
"""

import ipaddress
import logging
import os
import re
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from docagent_rl.base.errors import UserError

LONGEST_REPLY = 8 << 20
"""Maximum bytes of a reply: ten times a reply of 100,000 tokens, or the hits of the largest search.
"""
PLAIN = {"Accept-Encoding": "identity"}
"""The header of every request. A small reply may decompress to a huge one, so none is accepted."""

_LOGS = {"openai._base_client": logging.INFO, "httpx2": logging.WARNING, "httpcore2": logging.INFO}
"""Minimum levels of loggers. Below, they write addresses with passwords, reason phrases and headers
of replies, and some versions write whole request bodies, page images included.
"""
NO_KEY = "none"
"""The key for servers that need none."""
HIDDEN = "[api key]"
"""The text that replaces a key in messages."""
_TELLING = 16
_HERE = ("localhost", "127.0.0.1", "::1")


class BodyError(Exception):
    """A body breaks the policy and is not read any further."""


def client_options(url: str) -> dict[str, Any]:
    """Return the arguments of an `httpx2.AsyncClient` under this policy.

    The caller has to limit the total time. Proxies from the environment are used, except for
    requests to this machine: for a proxy elsewhere, the loopback address is another machine.
    """
    keep_logs_clean()
    return {
        "headers": PLAIN,
        "follow_redirects": False,
        "trust_env": not is_loopback(url),
        "event_hooks": {"response": [_bound]},
    }


async def _bound(response: httpx2.Response) -> None:
    """Limit an unread response to `LONGEST_REPLY` bytes: reading more raises a `BodyError`.

    Raises:
        BodyError: The response is compressed.
    """
    # the client is asynchronous
    stream = cast("httpx2.AsyncByteStream", response.stream)
    response.stream = _Bounded(stream, bounded(response.headers, stream))


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream, pieces: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        await self._stream.aclose()


def bounded(headers: Mapping[str, str], pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Return the pieces of a body as they arrive, up to `LONGEST_REPLY` bytes.

    Raises:
        BodyError: The body is compressed, according to the headers; or, while the pieces are
            consumed, it is too long.
    """
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise BodyError(f"the reply is compressed by {encoding[:20]!r}, which was not requested")
    return _up_to_the_longest(pieces)


async def _up_to_the_longest(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > LONGEST_REPLY:
            raise BodyError(f"the reply is longer than {LONGEST_REPLY >> 20} MiB and was cut off")
        yield piece


def is_loopback(url: str) -> bool:
    """Return whether an address is a loopback address: `localhost`, 127.0.0.0/8, `::1`."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost" or host.endswith(".localhost")


def proxy_variable(url: str) -> str | None:
    """Return the environment variable, with its value, that sets an address's proxy, if any."""
    parts = urlsplit(url)
    proxies = getproxies()
    kind = next((kind for kind in (parts.scheme, "all") if kind in proxies), None)
    if kind is None or is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return f"{kind}_proxy={public_url(proxies[kind])}"


def past_proxies() -> dict[str, str]:
    """Return environment variables that exclude this machine from the proxies of the environment.

    They are for libraries that send requests to this machine: trackers, Ray, verl. If there is no
    proxy, the result is empty.
    """
    if not set(getproxies()) - {"no"}:
        return {}
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in given.split(",") if name.strip()]
    value = ",".join(dict.fromkeys([*names, *_HERE]))
    return {"NO_PROXY": value, "no_proxy": value}


def public_url(url: str) -> str:
    """Return an address without its parts that may be secret: user, password and query."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def check_url(url: str | None, setting: str) -> str:
    """Return an address without trailing slashes.

    Raises:
        UserError: It is not an HTTP address; the message names the setting and contains no secret.
    """
    try:
        parts = urlsplit(url or "")
        good = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        good = False
    if not (url and good):
        raise UserError(
            f"{setting}={public_url(url or '')}: expected an address such as http://host:port"
        )
    return url.rstrip("/")


def keep_logs_clean() -> None:
    """Silence what the libraries of our clients log about requests."""
    for logger, level in _LOGS.items():
        logging.getLogger(logger).setLevel(max(logging.getLogger(logger).level, level))


def read_api_key(variable: str | None, setting: str) -> str:
    """Return the key in an environment variable, stripped; `NO_KEY` if no variable is named.

    Raises:
        UserError: The variable is not set, or its value cannot be sent in a header; the message
            names the setting and does not contain the value.
    """
    if variable is None:
        return NO_KEY
    # values that are read from files often end with a line feed
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"{setting}: the environment variable {variable} is not set")
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{setting}: the environment variable {variable} contains control or non-ASCII "
            "characters, which no key has"
        )
    return key


def redacted(text: str, key: str) -> str:
    """Hide the key, in upper or lower case, in a message."""
    return text if key == NO_KEY else re.sub(re.escape(key), HIDDEN, text, flags=re.IGNORECASE)


def without_key(body: bytes, key: str) -> bytes:
    """Hide the key in a model's reply, unless it is short: `EMPTY` may be a word of the reply."""
    return body.replace(key.encode(), HIDDEN.encode()) if len(key) >= _TELLING else body
