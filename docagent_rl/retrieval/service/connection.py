"""One request to a search server, and what becomes of it."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.terminal import visible
from docagent_rl.endpoints.api_keys import NO_KEY, redacted
from docagent_rl.endpoints.http_client import public_url
from docagent_rl.endpoints.retrying import describe
from docagent_rl.retrieval.base import (
    NotTakenError,
    QueryRefusedError,
    ServerFaultError,
    ServiceFailedError,
)
from docagent_rl.retrieval.service.wire import Call

CONNECT_S = 5.0
_REFUSED = frozenset({400, 413, 414, 422, 431})
_BUSY = frozenset({429, 503})
_PASSING = frozenset({408, 409, 425})
_LONGEST = 200
_PIECE = 64 << 10


@dataclass(frozen=True, slots=True)
class Place:
    """Where a server is.

    Args:
        url: of the server, without the path of its API.
        key: of the configuration's section, for messages.
        token: kept out of every message.
        timeout_s: seconds of one request.
        connections: at a time, for every event loop.
    """

    url: str
    key: str
    token: str = field(default=NO_KEY, repr=False)
    timeout_s: float = 10.0
    connections: int = 64

    @property
    def shown(self) -> str:
        """The address without user and password."""
        return public_url(self.url)


class Connections:
    """Requests to one server; every event loop has its own connections.

    Args:
        place: the server.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self._sessions: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = (
            weakref.WeakKeyDictionary()
        )

    async def ask(self, call: Call, *, largest: int) -> bytes:
        """Return the body of a successful answer.

        Args:
            call: the request.
            largest: bytes of a body at most.

        Raises:
            NotTakenError: nobody is there, or it is busy.
            ServiceFailedError: no answer in time, a lost connection, an error of the server.
            QueryRefusedError: it does not take what was asked.
            InfrastructureError: it does not let us in, or has no such path.
        """
        status, headers, body = await self._exchange(call, largest)
        if status == 200:
            return body
        message = f"HTTP {status}: {self._said(body)}"
        raise self._failure(status, headers, message)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _exchange(self, call: Call, largest: int) -> tuple[int, Mapping[str, str], bytes]:
        import aiohttp

        try:
            async with self._client().request(
                call.method,
                self.place.url + call.path,
                params=call.params or None,
                data=call.body,
                allow_redirects=False,
            ) as reply:
                return reply.status, dict(reply.headers), await _bounded(reply, largest)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            failed: Exception = NotTakenError(self._line(f"no connection: {describe(error)}"))
        except TimeoutError:
            failed = ServiceFailedError(f"no answer within {self.place.timeout_s:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failed = ServiceFailedError(self._line(f"the connection broke: {describe(error)}"))
        # outside of the handlers: what was caught may hold the token, and so must not become the context
        raise failed

    def _failure(self, status: int, headers: Mapping[str, str], message: str) -> Exception:
        from docagent_rl.endpoints.chat_failure import retry_after_s

        key, shown = self.place.key, self.place.shown
        if status in _BUSY:
            lowered = {name.lower(): value for name, value in headers.items()}
            return NotTakenError(message, retry_after_s(lowered))
        if status in _REFUSED:
            return QueryRefusedError(message)
        if status in (401, 403):
            return InfrastructureError(
                f"{key}.service: {shown} does not let us in ({message}): {key}.service.token_env names the "
                "variable with the token, which has to be set on every node"
            )
        if status == 500:
            return ServerFaultError(message)
        if status >= 500 or status in _PASSING:
            return ServiceFailedError(message)
        return InfrastructureError(
            f"{key}.service: {shown} has no such search or document ({message}): see {key}.service.url, "
            f"{key}.service.api and whether it serves the same store"
        )

    def _client(self) -> Any:
        import aiohttp

        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None or session.closed:
            place = self.place
            headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
            if place.token != NO_KEY:
                headers["Authorization"] = f"Bearer {place.token}"
            session = self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=place.connections),
                timeout=aiohttp.ClientTimeout(total=place.timeout_s, sock_connect=CONNECT_S),
                headers=headers,
                # nothing is unpacked: little may unpack to much
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return session

    def _said(self, body: bytes) -> str:
        return self._line(" ".join(body[:_LONGEST].decode("utf-8", "replace").split()))

    def _line(self, text: str) -> str:
        return visible(redacted(text, self.place.token))


async def _bounded(reply: Any, largest: int) -> bytes:
    if reply.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise ValueError("the answer is compressed, which was not asked for")
    pieces, total = [], 0
    async for piece in reply.content.iter_chunked(_PIECE):
        pieces.append(piece)
        total += len(piece)
        if total > largest:
            reply.close()
            raise ValueError(f"the answer is longer than {largest >> 20} MiB")
    return b"".join(pieces)
