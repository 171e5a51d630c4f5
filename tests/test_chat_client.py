from __future__ import annotations

import asyncio
import logging

import pytest

from docagent_rl.chat_client import ChatClient, ChatEndpoint, ReplyError, encodable
from docagent_rl.errors import InfrastructureError
from tests.chat_server import ChatServer, serving

HELLO = [{"role": "user", "content": "hello"}]


@pytest.fixture
async def server():
    async with serving(ChatServer()) as running:
        yield running


def client(server, **changes) -> ChatClient:
    settings = {"model": "m", "timeout_s": 5, "deadline_s": 10, "backoff_s": 0, **changes}
    return ChatClient(ChatEndpoint(base_url=server.url, **settings), "planner")


def word(text):
    if text is None or " " in text:
        raise ReplyError("not one word")
    return text.upper()


async def test_asks_and_reads(server):
    asked = client(
        server, temperature=0.3, max_tokens=7, extra_body={"chat_template_kwargs": {"thinking": False}}
    )
    assert await asked.ask(HELLO, word) == "READY"
    (request,) = server.requests
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("m", 0.3, 7)
    assert request["chat_template_kwargs"] == {"thinking": False}
    assert request["messages"] == HELLO


async def test_replies_that_cannot_be_used_are_asked_for_again(server):
    server.script = ["two words", {"choices": []}, "one"]
    assert await client(server).ask(HELLO, word) == "ONE"
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("always", "requests"), [("two words", 3), (500, 3), (401, 1), (b"<html>", 3)], ids=str
)
async def test_failures_name_the_service(server, always, requests):
    server.script = [always]
    with pytest.raises(InfrastructureError, match=r"planner 'm' at http://127\.0\.0\.1"):
        await client(server).ask(HELLO, word)
    assert len(server.requests) == requests


async def test_a_deadline(server):
    server.script = [30.0]
    with pytest.raises(InfrastructureError, match=r"within 0\.3 s"):
        await client(server, deadline_s=0.3).ask(HELLO, word)


async def test_concurrency(server):
    server.slow_s = 0.02
    asked = client(server, concurrency=2)
    await asyncio.gather(*(asked.ask(HELLO, word) for _ in range(8)))
    assert server.busiest == 2
    await asked.aclose()
    assert await asked.ask(HELLO, word) == "READY"


async def test_no_body_and_no_key_in_any_log(server, caplog):
    caplog.set_level(logging.DEBUG)
    url = "data:image/jpeg;base64,QUJD"
    image = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]
    asked = client(server, api_key="sk-very-secret")
    await asked.ask(image, word)
    assert server.requests[0]["messages"] == image
    assert server.headers[0]["Authorization"] == "Bearer sk-very-secret"
    assert "base64" not in caplog.text
    assert "very-secret" not in f"{caplog.text} {asked.endpoint!r} {vars(asked)}"


def test_any_text_can_be_sent():
    assert encodable("a\ud83d").encode() == b"a?"
