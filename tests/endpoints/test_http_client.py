"""No service can fill the memory, hold a client for ever, send it elsewhere, or make it print a key."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint
from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.http_client import (
    HIDDEN,
    LONGEST_BODY,
    NO_KEY,
    public_url,
    read_api_key,
    redacted,
    without_key,
)
from tests.chat_server import RawServer, completion
from tests.endpoints.conftest import HELLO

FLOOD = 80 << 20


async def ask(url, **changes):
    options = {"timeout_s": 60, "deadline_s": 120, "attempts": 1, "backoff_s": 0, **changes}
    asked = ChatClient(ChatEndpoint(url, "m", **options), "planner")
    try:
        return await asked.ask(HELLO, str)
    finally:
        await asked.aclose()


def refused(url, **changes):
    tracemalloc.start()
    with pytest.raises(InfrastructureError) as failed:
        asyncio.run(ask(url, **changes))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * LONGEST_BODY
    return str(failed.value)


@pytest.mark.parametrize("status", [200, 401, 503])
@pytest.mark.parametrize("told", [False, True], ids=["chunked", "announced"])
def test_a_flood_is_cut_off(status, told):
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        length = f"content-length: {FLOOD}" if told else "transfer-encoding: chunked"
        writer.write(f"HTTP/1.1 {status} Told\r\ncontent-type: application/json\r\n{length}\r\n\r\n".encode())
        piece = b" " * (1 << 20)
        with contextlib.suppress(ConnectionError):
            while sent < FLOOD:
                writer.write(piece if told else b"100000\r\n" + piece + b"\r\n")
                await writer.drain()
                sent += len(piece)
        writer.close()

    async def run():
        server = await asyncio.start_server(flood, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            with pytest.raises(InfrastructureError, match="16 MiB"):
                await ask(url)

    asyncio.run(run())
    assert sent < LONGEST_BODY + (32 << 20)


def test_a_body_of_the_greatest_length_is_read(raw):
    body = json.dumps(completion("good")).encode()
    raw.respond(body + b" " * (LONGEST_BODY - len(body)))
    assert asyncio.run(ask(raw.url)) == "good"
    raw.respond(body + b" " * (LONGEST_BODY - len(body) + 1))
    assert "16 MiB" in refused(raw.url)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_compression_is_a_failure_since_little_may_unpack_to_much(raw, kind):
    raw.respond(gzip.compress(json.dumps(completion("good")).encode()), content_encoding=kind)
    assert f"compressed by '{kind}'" in refused(raw.url, attempts=2)
    assert raw.requests == 2


@pytest.mark.parametrize("status", [301, 307, 308])
def test_no_redirect_takes_a_prompt_elsewhere(raw, status):
    with RawServer() as elsewhere:
        elsewhere.respond(json.dumps(completion("taken")).encode())
        place = elsewhere.url.replace("http://", "http://user:hunter2@")
        raw.respond(b"", status=status, location=f"{place}/chat/completions?key=hunter2")
        message = refused(raw.url, attempts=3)
        assert (raw.requests, elsewhere.requests) == (1, 0)
    assert f"{elsewhere.url}/chat/completions" in message
    assert "hunter2" not in message


def test_addresses_are_told_without_their_secrets_and_those_that_are_none_are_refused():
    assert public_url("https://a:b@host:1/v1?key=x#y") == "https://host:1/v1"
    assert "[" not in public_url("http://[::1")
    for url in ("host:8/v1", "ftp://u:hunter2@host", "http://u:hunter2@host:port", "http://u:hunter2@/v1"):
        with pytest.raises(UserError, match=r"judge\.base_url=") as caught:
            ChatEndpoint.of(Endpoint(base_url=url, model="m"), "judge")
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("value", ["", "sk-very\nsecret", "sk-\x1bsecret", "sk-sécret", "sk-\udcffsecret"])
def test_keys_come_from_the_environment_and_wrong_ones_are_not_repeated(monkeypatch, value):
    monkeypatch.setenv("SOME_KEY", " sk-1\r\n")
    assert read_api_key("SOME_KEY", "judge.api_key_env") == "sk-1"
    assert read_api_key(None, "judge.api_key_env") == NO_KEY
    monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(UserError, match=r"judge\.api_key_env.*SOME_KEY") as refused:
        read_api_key("SOME_KEY", "judge.api_key_env")
    assert "secret" not in str(refused.value)


KEY = "sk-Very/Secret+0123456789abcdef"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"Incorrect API key provided: {KEY}. Ask", f"Incorrect API key provided: {HIDDEN}. Ask"),
        (KEY.upper() + KEY.lower(), HIDDEN),
        (f"key {KEY[:12]}...{KEY[-8:]}", f"key {HIDDEN}...{HIDDEN}"),
        ("sk-Very*****cdef", "sk-Very*****cdef"),
    ],
)
def test_a_key_is_taken_out(text, left):
    assert redacted(text, KEY) == left


@given(st.text(), st.integers(0, 5), st.text())
def test_no_telling_piece_of_a_key_is_left(before, shift, after):
    packed = base64.b64encode(b"x" * shift + KEY.encode()).decode()
    left = redacted(f"{before}{KEY}{after}{packed}{before}", KEY)
    assert not [n for n in range(len(KEY) - 7) if KEY[n : n + 8].lower() in left.lower()]
    assert packed[8:-4] not in left
    assert HIDDEN in left


def test_short_keys_and_no_key():
    assert redacted("EMPTY is no key", "EMPTY") == f"{HIDDEN} is no key"
    assert redacted("empty is a word", "EMPTY") == "empty is a word"
    assert redacted("none", NO_KEY) == "none"
    assert without_key("EMPTY none", "EMPTY") == "EMPTY none"
    assert without_key(f"it is {KEY}!", KEY) == f"it is {HIDDEN}!"
