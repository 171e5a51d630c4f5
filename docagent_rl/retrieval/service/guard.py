"""What every request passes before anything reads it: the token, and the bounds of address and body."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Mapping
from typing import Any

LONGEST_ADDRESS = 64 << 10
"""Bytes of a request's path and query."""
BODY_S = 30.0
"""Seconds in which a body has to arrive."""
OPEN = frozenset({"/health", "/v1/health"})
"""Paths that need no token: they tell nothing but that somebody is there."""


class RefusalError(Exception):
    """A request that gets an error for an answer.

    Args:
        status: of HTTP.
        message: one line.
        headers: of the answer.
    """

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})


class Guard:
    """An ASGI application around another one. It reads bodies itself, so that the other gets bounded ones.

    Args:
        app: what is guarded.
        token: that clients have to send (`Authorization: Bearer`); None: none.
        largest_body: bytes.
    """

    def __init__(self, app: Any, token: str | None, largest_body: int) -> None:
        self._app, self._largest = app, largest_body
        self._expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check_head(scope)
            body = await self._body(scope, receive)
        except RefusalError as error:
            await _answer(send, error)
            return
        except ConnectionError:  # nobody is there to answer to
            return
        given = False

        async def replay() -> dict[str, Any]:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, replay, send)

    def _check_head(self, scope: Any) -> None:
        if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > LONGEST_ADDRESS:
            raise RefusalError(414, f"the address is longer than {LONGEST_ADDRESS >> 10} KiB")
        if self._expected is not None and scope["path"] not in OPEN:
            sent = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            if not hmac.compare_digest(sent, self._expected):
                raise RefusalError(401, "the token is missing or wrong", {"WWW-Authenticate": "Bearer"})
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if not announced.isdigit() or int(announced[:20]) > self._largest:
            raise self._too_large()

    async def _body(self, scope: Any, receive: Any) -> bytes:
        pieces, total = [], 0
        try:
            async with asyncio.timeout(BODY_S):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionError
                    pieces.append(message.get("body", b""))
                    total += len(pieces[-1])
                    if total > self._largest:
                        raise self._too_large()
                    if not message.get("more_body", False):
                        return b"".join(pieces)
        except TimeoutError:
            raise RefusalError(408, f"the body did not arrive within {BODY_S:g} s") from None

    def _too_large(self) -> RefusalError:
        message = f"the body is longer than {self._largest >> 20} MiB"
        return RefusalError(413, message, {"Connection": "close"})


async def _answer(send: Any, error: RefusalError) -> None:
    body = json.dumps({"error": error.message}).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
