"""Judge and roles behind one real HTTP server that is late, and fails for some of what it is asked."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.chat_server import completion

AT_ONCE = 16
ROLES = ("planner", "reader", "answer", "extractor")


@dataclass
class Service:
    """Answers by what it is asked: equal conversations get equal replies, at any time and in any order.

    Args:
        late_s: seconds of a reply at most.
        broken: share of conversations that always fail, so that their trajectories are masked.
        shaky: share of conversations that fail the first time they are asked, and answer after that.
    """

    late_s: float = 0.02
    broken: float = 0.0
    shaky: float = 0.0
    busy: Counter[str] = field(default_factory=Counter)
    busiest: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    by_model: Counter[str] = field(default_factory=Counter)
    url: str = ""
    _seen: set[str] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    def __enter__(self) -> Service:
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application(client_max_size=64 << 20)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        self.url = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/v1"

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        key, model = key_of(body), body["model"]
        draw = int(key[:8], 16) / 0xFFFFFFFF
        self.by_model[model] += 1
        self.busy[model] += 1
        self.busiest[model] = max(self.busiest[model], self.busy[model])
        try:
            await asyncio.sleep(self.late_s * (int(key[8:12], 16) / 0xFFFF))
            first = key not in self._seen
            if self.shaky:
                self._seen.add(key)
            if draw < self.broken or (first and draw < self.broken + self.shaky):
                self.failed += 1
                return web.json_response({"error": {"message": "out of memory"}}, status=503)
            return web.json_response(completion(reply_of(body)))
        finally:
            self.busy[model] -= 1

    def most_at_once(self) -> int:
        """Requests of one model that were in flight together, at most."""
        return max(self.busiest.values(), default=0)


def key_of(body: Mapping[str, Any]) -> str:
    """By what is asked."""
    return hashlib.sha256(json.dumps([body["model"], body["messages"]]).encode()).hexdigest()


def reply_of(body: Mapping[str, Any]) -> str:
    """The one right reply to a request."""
    number = int(key_of(body)[12:16], 16)
    match body["model"]:
        case "judge":
            return f"<judge>{bool(number % 2)}</judge>"
        case "planner":
            return f"1. Search for number {number}.\n2. Read the pages."
        case "extractor":
            return f"Extracted answer: {number % 9}\nAnswer format: Integer"
    return f"{number} people"


def overrides(system: str, url: str, roles: Sequence[str] = ROLES, **changes: Any) -> list[str]:
    """Keys of a configuration that has the judge, or the roles of MM-Doc-R1, ask at an address.

    Systems that nobody judges get a judge as well, whom they do not ask; `changes`: of how patiently.
    """
    patience = {"attempts": 2, "backoff_s": 0.02, "timeout_s": 60, "deadline_s": 120, "concurrency": AT_ONCE}
    if system == "mm_doc_r1":
        sections = {f"docagent.roles.{role}": role for role in roles}
    else:
        sections = {"docagent.judge": "judge"}
    told = []
    for section, model in sections.items():
        kind = "kind" if model == "judge" else "backend"
        keys = {kind: "openai", "base_url": f'"{url}"', "model": model, **patience, **changes}
        told += [f"++{section}.{name}={value}" for name, value in keys.items()]
    return told
