"""The policy of every HTTP client of ours: a service may send anything, anywhere, for ever.

No redirect is followed, for it would take what is sent, a prompt or a key, to an address that
nobody named. A reply is not compressed, has a greatest length, and a time in which it has to be
whole. Keys come from the environment alone. Messages hold no key (`redacted`) and name addresses by
`public_url`.
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
"""Bytes of a reply at most: ten times one of 100,000 tokens, or the hits of the largest search."""
PLAIN = {"Accept-Encoding": "identity"}
"""The header of every request: little may unpack to much, so nothing is unpacked."""

_LOGS = {"openai._base_client": logging.INFO, "httpx2": logging.WARNING, "httpcore2": logging.INFO}
"""Below these levels the loggers write addresses with their passwords, reason phrases and headers
of replies, and those of some versions whole request bodies, page images included.
"""
NO_KEY = "none"
"""The key of servers that ask for none."""
HIDDEN = "[api key]"
"""The stand-in of a key in messages."""
_TELLING = 16
_HERE = ("localhost", "127.0.0.1", "::1")


class BodyError(Exception):
    """A body that is not read any further."""


def client_options(url: str) -> dict[str, Any]:
    """Return the arguments of an `httpx2.AsyncClient` by this policy; its caller bounds the whole
    time.

    Proxies of the environment are taken, but not to this machine: a proxy elsewhere has another
    loopback.
    """
    keep_logs_clean()
    return {
        "headers": PLAIN,
        "follow_redirects": False,
        "trust_env": not is_loopback(url),
        "event_hooks": {"response": [_bound]},
    }


async def _bound(response: httpx2.Response) -> None:
    """Let a response that is not read yet end at `LONGEST_REPLY`: reading more raises `BodyError`.

    Raises:
        BodyError: the response is compressed.
    """
    # of an asynchronous client
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
    """Return the pieces of a body, as the connection brings them, up to `LONGEST_REPLY` bytes.

    Raises:
        BodyError: the headers say that the body is compressed, or, while it is read, it is longer.
    """
    encoding = headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise BodyError(f"the reply is compressed by {encoding[:20]!r}, which was not asked for")
    return _up_to_the_longest(pieces)


async def _up_to_the_longest(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    total = 0
    async for piece in pieces:
        total += len(piece)
        if total > LONGEST_REPLY:
            raise BodyError(f"the reply is longer than {LONGEST_REPLY >> 20} MiB and was cut off")
        yield piece


def is_loopback(url: str) -> bool:
    """Return whether an address is one of this machine's own: `localhost`, 127.0.0.0/8, `::1`."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.rstrip(".") == "localhost" or host.endswith(".localhost")


def proxy_variable(url: str) -> str | None:
    """Return the environment variable, with its value, that sends requests for an address to a
    proxy.
    """
    parts = urlsplit(url)
    proxies = getproxies()
    kind = next((kind for kind in (parts.scheme, "all") if kind in proxies), None)
    if kind is None or is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return f"{kind}_proxy={public_url(proxies[kind])}"


def past_proxies() -> dict[str, str]:
    """Return variables that keep the proxies of the environment from this machine's own addresses.

    For the libraries that ask services here: trackers, Ray, verl. Nothing where there is no proxy.
    """
    if not set(getproxies()) - {"no"}:
        return {}
    given = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    names = [name.strip() for name in given.split(",") if name.strip()]
    value = ",".join(dict.fromkeys([*names, *_HERE]))
    return {"NO_PROXY": value, "no_proxy": value}


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
        UserError: it is no address of HTTP; the message names the setting and holds no secret of
            it.
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
    """Silence what the libraries under our clients write about requests."""
    for logger, level in _LOGS.items():
        logging.getLogger(logger).setLevel(max(logging.getLogger(logger).level, level))


def read_api_key(variable: str | None, setting: str) -> str:
    """Return the key in an environment variable, stripped; `NO_KEY` when no variable is named.

    Raises:
        UserError: the variable is not set, or no header could carry its value, which is not
            repeated; the message names the setting.
    """
    if variable is None:
        return NO_KEY
    # files of secrets end in a line feed
    key = os.environ.get(variable, "").strip()
    if not key:
        raise UserError(f"{setting}: the environment variable {variable} is not set")
    if not (key.isascii() and key.isprintable()):
        raise UserError(
            f"{setting}: the environment variable {variable} holds characters that no key has: "
            "control "
            "characters, or others than ASCII"
        )
    return key


def redacted(text: str, key: str) -> str:
    """Hide the key in a message, in any case."""
    return text if key == NO_KEY else re.sub(re.escape(key), HIDDEN, text, flags=re.IGNORECASE)


def without_key(body: bytes, key: str) -> bytes:
    """Hide the key in a reply of a model. Short keys, such as `EMPTY`, are words that a reply may
    hold.
    """
    return body.replace(key.encode(), HIDDEN.encode()) if len(key) >= _TELLING else body
