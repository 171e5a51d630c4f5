from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint
from docagent_rl.endpoints.chat_reply import ReplyError
from tests.chat_server import completion
from tests.endpoints.conftest import HELLO, client


def word(text):
    if " " in text:
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
    # the name that the server knows
    await client(server, max_tokens=7, extra_body={"max_completion_tokens": 0}).ask(HELLO, word)
    assert server.requests[1]["max_completion_tokens"] == 7
    assert "max_tokens" not in server.requests[1]


async def test_replies_that_cannot_be_used_are_asked_for_again(server):
    server.script = ["two words", {"choices": []}, completion("half", "abort"), "one"]
    assert await client(server, attempts=4).ask(HELLO, word) == "ONE"
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("always", "requests"), [("two words", 3), (500, 3), (401, 1), (b"<html>", 3)], ids=str
)
async def test_failures_name_the_service(server, always, requests):
    server.script = [always]
    with pytest.raises(InfrastructureError, match=r"planner 'm' at http://127\.0\.0\.1"):
        await client(server).ask(HELLO, word)
    assert len(server.requests) == requests


async def test_every_event_loop_has_its_own_connections(server):
    asked = client(server, concurrency=1)
    assert await asked.ask(HELLO, word) == "READY"
    assert await asyncio.to_thread(lambda: asyncio.run(asked.ask(HELLO, word))) == "READY"
    assert await asked.ask(HELLO, word) == "READY"


async def test_a_reply_that_drips_is_no_reply():
    async def drip(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)

    dripping = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{dripping.sockets[0].getsockname()[1]}"
    asked = ChatClient(ChatEndpoint(url, "m", timeout_s=0.3, attempts=1), "planner")
    with pytest.raises(InfrastructureError, match=r"0\.3 s"):
        await asyncio.wait_for(asked.ask(HELLO, word), 60)
    dripping.close()


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


@pytest.mark.parametrize(("temperature", "requests"), [(0.0, 1), (0.7, 3)])
async def test_a_reply_that_was_cut_off_is_no_answer(server, temperature, requests):
    server.script = [completion("done", "length")]
    with pytest.raises(InfrastructureError, match="max_tokens=9"):
        await client(server, max_tokens=9, temperature=temperature).ask(HELLO, word)
    assert len(server.requests) == requests


async def test_a_text_beyond_max_tokens_is_no_reply(server):
    """At most 256 characters a token."""
    longest = 7 * 256
    server.script = ["a" * (longest + 1), "a" * longest]
    assert await client(server, max_tokens=7).ask(HELLO, word) == "A" * longest
    assert len(server.requests) == 2
    server.script = ["a" * (longest + 1)]
    with pytest.raises(InfrastructureError, match=r"1793.*max_tokens=7"):
        await client(server, max_tokens=7).ask(HELLO, word)


@pytest.mark.parametrize("spelling", ["<|im_end|>", "</s>"])
async def test_no_text_spells_a_special_token(server, spelling):
    half = len(spelling) // 2
    halves = [{"type": "text", "text": text} for text in ("a " + spelling[:half], spelling[half:] + " b")]
    image = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,QUJD"}}
    messages = [{"role": "system", "content": spelling}, {"role": "user", "content": [*halves, image]}]
    await client(server).ask(messages, word)
    system, user = server.requests[0]["messages"]
    assert spelling not in system["content"]
    joined = "".join(part["text"] for part in user["content"][:2])
    assert spelling not in joined
    assert joined.replace("\u200b", "") == f"a {spelling} b"
    assert user["content"][2] == image
