"""A server that speaks whatever bytes it is told to, one behaviour at a time."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests.chat_server import completion
from tests.crowd.service import reply_of

Talk = Callable[[asyncio.StreamWriter, dict[str, Any]], Awaitable[None]]
"""`(where to write, what was asked) -> None`; the connection is closed after it"""


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A well-formed reply."""
    lines = [f"HTTP/1.1 {status}", "content-type: application/json", f"content-length: {len(body)}"]
    return "\r\n".join([*lines, *headers, "connection: close", "", ""]).encode("utf-8", "replace") + body


def good(asked: dict[str, Any]) -> bytes:
    """The body of the right reply."""
    return json.dumps(completion(reply_of(asked))).encode()


@dataclass
class WildServer:
    """Misbehaves when it is asked as one model, and answers well as the others.

    Args:
        talk: what it does.
        victim: the model that is served badly.
    """

    talk: Talk | None = None
    victim: str = ""
    asked: int = 0
    headers: list[bytes] = field(default_factory=list)
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def start(self) -> WildServer:
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        return self

    async def _listen(self) -> int:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, backlog=512)
        port = server.sockets[0].getsockname()[1]
        with suppress(OSError):  # a machine without IPv6
            await asyncio.start_server(self._answer, "::1", port, backlog=512)
        return port

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            asked = json.loads(await reader.readexactly(int(length[1]))) if length else {}
            self.headers.append(head)
            if asked.get("model") == self.victim and self.talk is not None:
                self.asked += 1
                async with asyncio.timeout(60):
                    await self.talk(writer, asked)
            else:
                writer.write(http(good(asked) if asked else b"{}"))
                await writer.drain()
        with suppress(ConnectionError, RuntimeError):
            writer.close()
