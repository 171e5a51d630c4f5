"""A chat-completions server on the loopback interface whose replies the test chooses."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class ChatServer:
    """A server with scripted replies. `script` has one reply per request, of which the last is
    repeated: a text, a status, seconds, a raw body, or `(status, headers, body)`. `compute` makes
    the reply from the request instead. `times` has the moments of requests, by `time.monotonic`.
    """

    script: list = field(default_factory=lambda: ["ready"])
    requests: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0
    slow_s: float = 0.0
    url: str = ""
    compute: Callable[[dict], object] | None = None
    host: str = "127.0.0.1"

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        self.times.append(time.monotonic())
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await asyncio.sleep(self.slow_s)
            if self.compute is not None:
                reply = self.compute(await request.json())
            else:
                reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            return await self.respond(reply)
        finally:
            self.busy -= 1

    async def respond(self, reply) -> web.Response:
        match reply:
            case int(status):
                return web.json_response({"error": {"message": "told to fail"}}, status=status)
            case float(seconds):
                await asyncio.sleep(seconds)
                return web.Response(status=500)
            case bytes(raw):
                return web.Response(body=raw, content_type="text/html")
            case (status, headers, body):
                kind = {} if "Content-Type" in headers else {"content_type": "application/json"}
                return web.Response(status=status, headers=headers, body=body, **kind)
            case dict(body):
                return web.json_response(body)
        return web.json_response(completion(reply))


def completion(content, finish_reason="stop", usage=None) -> dict:
    """Return the body of a well-formed reply; `usage` has the tokens of prompt and reply, if the
    server reports them.
    """
    message = {"role": "assistant", "content": content}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
    if usage is not None:
        body["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    return body


class RawServer:
    """A server that answers every request with the same bytes, from a thread of its own; `requests`
    counts them.
    """

    def __init__(self) -> None:
        self.response = b""
        self.requests = 0
        self.url = ""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)

    def __enter__(self) -> RawServer:
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._answer, "127.0.0.1", 0), self.loop
        ).result(60)
        self.url = f"http://127.0.0.1:{started.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()

    def respond(
        self, body: bytes, status: int = 200, kind: str = "application/json", **headers: str
    ) -> None:
        """Answer with this body from now on."""
        lines = [f"HTTP/1.1 {status} Told", f"content-type: {kind}", f"content-length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.response = "\r\n".join([*lines, "connection: close", "", ""]).encode() + body

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        self.requests += 1
        writer.write(self.response)
        with suppress(ConnectionError):
            await writer.drain()
            writer.close()


@asynccontextmanager
async def serving(server: ChatServer) -> AsyncIterator[ChatServer]:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, server.host, 0, backlog=1024)
    await site.start()
    server.url = f"http://{server.host}:{site._server.sockets[0].getsockname()[1]}/v1"
    yield server
    await runner.cleanup()


@contextmanager
def threaded(server: ChatServer) -> Iterator[ChatServer]:
    """Run a server in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = serving(server)
    asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(10)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
