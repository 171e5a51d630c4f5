"""The policy of every HTTP client of ours: a service may send anything, anywhere, for ever.

No redirect is followed, for it would take what is sent, a prompt or a key, to an address that nobody named. A
reply has a greatest length and a time in which it has to be whole. Keys come from the environment alone.
Messages hold no key (`redacted`) and name addresses by `public_url`.
"""

from __future__ import annotations

import base64
import functools
import itertools
import logging
import os
import re
from collections.abc import AsyncIterator
from typing import cast
from urllib.parse import urlsplit, urlunsplit

import httpx2

from docagent_rl.base.errors import UserError

LONGEST_BODY = 16 << 20
"""Bytes of a reply at most; a reply of 100,000 tokens has a tenth of that."""
_LOGS = {"openai._base_client": logging.INFO, "httpx2": logging.WARNING, "httpcore2": logging.INFO}
"""Below these levels the loggers write addresses with their passwords, reason phrases and headers of replies,
and those of some versions whole request bodies, page images included."""
NO_KEY = "none"
"""The key of servers that ask for none."""
HIDDEN = "[api key]"
"""The stand-in of a key in messages."""
# this many characters of a key in a row are hidden too
_TELLING = 8
_trusted = functools.cache(httpx2.create_ssl_context)  # reading certificates is most of a client's cost


class BodyError(Exception):
    """A body that is not read any further."""


def asynchronous_client(timeout_s: float) -> httpx2.AsyncClient:
    """Return a client whose replies end at `LONGEST_BODY`; it takes the proxies of the environment.

    `timeout_s` bounds a connection and each piece of a reply, the caller the whole.
    """
    _keep_logs_clean()
    return httpx2.AsyncClient(
        # nothing is unpacked: little may unpack to much
        headers={"Accept-Encoding": "identity"},
        timeout=timeout_s,
        follow_redirects=False,
        # those of the `openai` library; callers have fewer places (`Endpoint.concurrency`)
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        event_hooks={"response": [_bound]},
        verify=_trusted(),
    )


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


def _keep_logs_clean() -> None:
    for logger, level in _LOGS.items():
        logging.getLogger(logger).setLevel(max(logging.getLogger(logger).level, level))


async def _bound(response: httpx2.Response) -> None:
    """Let a response that is not read yet end at `LONGEST_BODY`: reading more raises `BodyError`.

    Raises:
        BodyError: the response announces a longer body, or is compressed.
    """
    announced = response.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced[:20]) > LONGEST_BODY:
        raise _too_long()
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise BodyError(f"the reply is compressed by {encoding[:20]!r}, which was not asked for")
    # of an asynchronous client
    response.stream = _Bounded(cast("httpx2.AsyncByteStream", response.stream))


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for piece in self._stream:
            total += len(piece)
            if total > LONGEST_BODY:
                raise _too_long()
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _too_long() -> BodyError:
    return BodyError(f"the reply is longer than {LONGEST_BODY >> 20} MiB and was cut off")


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
    """Hide the key in a text: whole, in pieces that would help to guess it, in any case, or in base64."""
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
