"""A chat server on the loopback, one that sends raw bytes, and clients of them."""

from __future__ import annotations

import pytest

from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint
from tests.chat_server import ChatServer, RawServer, serving

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def server():
    async with serving(ChatServer()) as running:
        yield running


@pytest.fixture
def raw():
    with RawServer() as running:
        yield running


def client(server, **changes) -> ChatClient:
    """A client of a service called "planner"."""
    options = {"model": "m", "timeout_s": 5, "deadline_s": 10, "backoff_s": 0, **changes}
    return ChatClient(ChatEndpoint(base_url=server.url, **options), "planner")
