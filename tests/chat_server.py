"""A chat-completions server on the loopback that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web


@dataclass
class ChatServer:
    """`script`: one reply a request, the last for ever: a text, a status, seconds, a raw body."""

    script: list = field(default_factory=lambda: ["ready"])
    requests: list[dict] = field(default_factory=list)
    headers: list[dict] = field(default_factory=list)
    busy: int = 0
    busiest: int = 0
    slow_s: float = 0.0
    url: str = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(await request.json())
        self.headers.append(dict(request.headers))
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            await asyncio.sleep(self.slow_s)
            reply = self.script.pop(0) if len(self.script) > 1 else self.script[0]
            return await self._respond(reply)
        finally:
            self.busy -= 1

    async def _respond(self, reply) -> web.Response:
        match reply:
            case int(status):
                return web.json_response({"error": {"message": "told to fail"}}, status=status)
            case float(seconds):
                await asyncio.sleep(seconds)
                return web.Response(status=500)
            case bytes(raw):
                return web.Response(body=raw, content_type="text/html")
            case dict(body):
                return web.json_response(body)
        message = {"role": "assistant", "content": reply}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": "m", "choices": [choice]}
        return web.json_response(body)


@asynccontextmanager
async def serving(server: ChatServer) -> AsyncIterator[ChatServer]:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"
    yield server
    await runner.cleanup()
