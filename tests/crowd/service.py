"""Judge and roles behind one real HTTP server that is slow, and fails for some requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.chat_server import ChatServer, threaded

AT_ONCE = 16
ROLES = ("planner", "reader", "answer", "extractor")


@dataclass
class Service(ChatServer):
    """A service whose replies depend only on the conversation, at any time and in any order.

    Args:
        broken: share of conversations that always fail, so that their trajectories are masked.
        shaky: share of conversations that fail the first time they are asked, and answer after
            that.
    """

    broken: float = 0.0
    shaky: float = 0.0
    under_way: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    _seen: set[str] = field(default_factory=set)

    def __enter__(self) -> Service:
        self._served = threaded(self)
        self._served.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._served.__exit__(*error)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        key, model = key_of(body), body["model"]
        draw = int(key[:8], 16) / 0xFFFFFFFF
        self.under_way[model] += 1
        self.most[model] = max(self.most[model], self.under_way[model])
        try:
            await asyncio.sleep(0.02 * (int(key[8:12], 16) / 0xFFFF))
            first = key not in self._seen
            if self.shaky:
                self._seen.add(key)
            if draw < self.broken or (first and draw < self.broken + self.shaky):
                self.failed += 1
                return await self.respond(503)
            return await self.respond(reply_of(body))
        finally:
            self.under_way[model] -= 1

    def most_at_once(self) -> int:
        """Return the largest number of concurrent requests of one model."""
        return max(self.most.values(), default=0)


def key_of(body: Mapping[str, Any]) -> str:
    """Return the key of a request: a digest of its model and messages."""
    return hashlib.sha256(json.dumps([body["model"], body["messages"]]).encode()).hexdigest()


def reply_of(body: Mapping[str, Any]) -> str:
    """Return the one right reply to a request."""
    number = int(key_of(body)[12:16], 16)
    match body["model"]:
        case "judge":
            return f"<judge>{bool(number % 2)}</judge>"
        case "planner":
            return f"1. Search for number {number}.\n2. Read the pages."
        case "extractor":
            return f"Extracted answer: {number % 9}\nAnswer format: Integer"
    return f"{number} people"


def overrides(system: str, url: str, roles: Sequence[str] = ROLES) -> list[str]:
    """Return overrides with which the judge, or the roles of MM-Doc-R1, are asked at an address.

    Systems that nobody judges get a judge as well, whom they do not ask.
    """
    patience = {
        "attempts": 2,
        "backoff_s": 0.02,
        "timeout_s": 60,
        "deadline_s": 120,
        "concurrency": AT_ONCE,
    }
    if system == "mm_doc_r1":
        sections = {f"docagent.roles.{role}": role for role in roles}
    else:
        sections = {"docagent.judge": "judge"}
    told = []
    for section, model in sections.items():
        kind = "kind" if model == "judge" else "backend"
        keys = {kind: "openai", "base_url": f'"{url}"', "model": model, **patience}
        told += [f"++{section}.{name}={value}" for name, value in keys.items()]
    return told
