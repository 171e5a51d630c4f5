"""No service can fill the memory, block a client for ever, redirect it, or make it print a key."""

import asyncio
import contextlib
import gzip
import json

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.http_client import (
    HIDDEN,
    LONGEST_REPLY,
    NO_KEY,
    is_loopback,
    past_proxies,
    proxy_variable,
    public_url,
    read_api_key,
    redacted,
    without_key,
)
from docagent_rl.retrieval.base import ServiceFailedError
from docagent_rl.retrieval.pooling_server import PoolingServer
from tests.chat_server import RawServer, completion
from tests.endpoints.conftest import KEY, client, said
from tests.memory import within

FLOOD = 10 * LONGEST_REPLY
PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")


def refused(url, times=4, **changes):
    with within(times * LONGEST_REPLY), pytest.raises(InfrastructureError) as failed:
        asyncio.run(said(url, timeout_s=60, deadline_s=120, attempts=1, **changes))
    return str(failed.value)


@pytest.mark.parametrize("status", [200, 401, 503])
@pytest.mark.parametrize("announced", [False, True])
def test_a_flood_is_cut_off(status, announced):
    sent = 0

    async def flood(reader, writer):
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        length = f"content-length: {FLOOD}" if announced else "transfer-encoding: chunked"
        head = f"HTTP/1.1 {status} Flood\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
        writer.write(head.encode())
        piece = b" " * (1 << 20)
        with contextlib.suppress(ConnectionError):
            while sent < FLOOD:
                writer.write(piece if announced else b"100000\r\n" + piece + b"\r\n")
                await writer.drain()
                sent += len(piece)
        writer.close()

    async def run():
        async with await asyncio.start_server(flood, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
            with pytest.raises(InfrastructureError, match="8 MiB"):
                await said(url, timeout_s=60, deadline_s=120, attempts=1)

    asyncio.run(run())
    assert sent < LONGEST_REPLY + (32 << 20)


def test_a_body_of_the_greatest_length_is_read(raw):
    body = json.dumps(completion("good")).encode()
    raw.respond(body + b" " * (LONGEST_REPLY - len(body)))
    assert asyncio.run(said(raw.url)) == "good"
    raw.respond(body + b" " * (LONGEST_REPLY - len(body) + 1))
    assert "8 MiB" in refused(raw.url)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_compression_is_a_failure_since_little_may_unpack_to_much(raw, kind):
    raw.respond(gzip.compress(bytes(200 << 20), 1), content_encoding=kind)
    assert f"compressed by '{kind}'" in refused(raw.url)
    with (
        within(4 * LONGEST_REPLY),
        pytest.raises(ServiceFailedError, match=f"compressed by '{kind}'"),
    ):
        PoolingServer(raw.url, named="encoder.endpoint")


@pytest.mark.parametrize("choices", ["1," * (1 << 20) + "1", '{"message":{}},' * (1 << 18) + "{}"])
def test_a_million_problems_of_a_reply_are_one(raw, choices):
    raw.respond(f'{{"choices":[{choices}]}}'.encode())
    assert "the reply is not a chat completion: choices" in refused(raw.url, times=16)


def test_no_proxy_stands_between_this_machine_and_itself(raw, monkeypatch):
    for name in PROXIES:
        monkeypatch.setenv(name, "http://user:hunter2@127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    raw.respond(json.dumps(completion("good")).encode())
    for host in ("127.0.0.1", "localhost"):
        assert asyncio.run(said(raw.url.replace("127.0.0.1", host), attempts=1)) == "good"
    assert proxy_variable("http://10.0.0.9/v1") == "http_proxy=http://127.0.0.1:9"
    monkeypatch.setenv("no_proxy", "10.0.0.9")
    assert proxy_variable("http://10.0.0.9/v1") is None


def test_libraries_of_a_run_are_kept_from_proxies_to_this_machine(monkeypatch):
    for name in (*PROXIES, "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert past_proxies() == {}
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    here = "localhost,127.0.0.1,::1"
    assert past_proxies() == {"NO_PROXY": here, "no_proxy": here}
    monkeypatch.setenv("NO_PROXY", "example.org, 127.0.0.1")
    assert past_proxies()["no_proxy"] == "example.org,127.0.0.1,localhost,::1"


def test_the_loopback():
    assert all(
        map(is_loopback, ("http://127.9.9.9:1", "https://LOCALHOST/v1", "http://[::1]:8/v1"))
    )
    assert not any(
        map(is_loopback, ("http://10.0.0.1", "http://localhost.example.org", "http://128.0.0.1"))
    )


@pytest.mark.parametrize("status", [301, 307, 308])
def test_no_redirect_takes_a_prompt_elsewhere(raw, status):
    with RawServer() as elsewhere:
        elsewhere.respond(json.dumps(completion("taken")).encode())
        place = elsewhere.url.replace("http://", "http://user:hunter2@")
        raw.respond(b"", status=status, location=f"{place}/chat/completions?key=hunter2")
        with pytest.raises(InfrastructureError, match=f"HTTP {status}") as failed:
            asyncio.run(said(raw.url))
        assert (raw.requests, elsewhere.requests) == (1, 0)
    assert "hunter2" not in str(failed.value)


def test_addresses_are_told_without_their_secrets_and_those_that_are_none_are_refused():
    assert public_url("https://a:b@host:1/v1?key=x#y") == "https://host:1/v1"
    assert "[" not in public_url("http://[::1")
    for url in (
        "host:8/v1",
        "ftp://u:hunter2@host",
        "http://u:hunter2@host:port",
        "http://u:hunter2@/v1",
    ):
        with pytest.raises(UserError, match=r"judge\.base_url=") as caught:
            client(url, "judge")
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "value", ["", "sk-very\nsecret", "sk-\x1bsecret", "sk-sécret", "sk-\udcffsecret"]
)
def test_keys_come_from_the_environment_and_wrong_ones_are_not_repeated(monkeypatch, value):
    monkeypatch.setenv("SOME_KEY", " sk-1\r\n")
    assert read_api_key("SOME_KEY", "judge.api_key_env") == "sk-1"
    assert read_api_key(None, "judge.api_key_env") == NO_KEY
    monkeypatch.setenv("SOME_KEY", value)
    with pytest.raises(UserError, match=r"judge\.api_key_env.*SOME_KEY") as refused:
        read_api_key("SOME_KEY", "judge.api_key_env")
    assert "secret" not in str(refused.value)


def test_a_key_is_taken_out():
    assert redacted(f"key {KEY}.{KEY.upper()}", KEY) == f"key {HIDDEN}.{HIDDEN}"
    assert redacted("none", NO_KEY) == "none"
    # short ones are words
    assert without_key(b"EMPTY none", "EMPTY") == b"EMPTY none"
    assert without_key(f"it is {KEY}!".encode(), KEY) == f"it is {HIDDEN}!".encode()
