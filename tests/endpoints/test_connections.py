"""No client can keep a connection open for ever or lock out the others."""

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager, suppress

import pytest

from docagent_rl.endpoints import connections, serving
from docagent_rl.endpoints.serving import Guard

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = (
    b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    b"9\r\n\r\n"
)
LARGE = 64 << 20
SERVER = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
from docagent_rl.endpoints import serving
from tests.endpoints.test_connections import hello
listener = serving.listen("127.0.0.1", 0)
print(listener.getsockname()[1], flush=True)
serving.run(serving.Guard(hello), listener)
"""


async def hello(scope, receive, send):
    if scope["type"] == "http":
        body = bytes(LARGE) if scope["path"] == "/large" else b""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served():
    """Yield the port of a server on this event loop."""
    app = Guard(hello, largest_body=100)
    server, listener = serving.make_server(app), serving.listen("127.0.0.1", 0)
    server.config.lifespan = "off"
    task = asyncio.create_task(server.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    server.should_exit = True
    await task


@asynccontextmanager
async def connected(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ended(reader):
    """Read to the end of a connection, however it comes."""
    with suppress(ConnectionError):
        return await reader.read()
    return b""


@pytest.mark.parametrize("whole", [0, 2])
async def test_a_head_that_never_ends_ends_its_connection(monkeypatch, whole):
    # long enough for the heads that do end, on a busy machine too
    monkeypatch.setattr(connections, "HEAD_S", 2.0)
    async with served() as port, asyncio.timeout(60), connected(port) as (reader, writer):
        for _ in range(whole):
            writer.write(WHOLE)
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            await reader.readuntil(b"0\r\n\r\n")
        writer.write(WHOLE[:-2])
        assert await ended(reader) == b""


async def test_a_body_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(serving, "BODY_S", 0.05)
    async with served() as port, asyncio.timeout(60), connected(port) as (reader, writer):
        writer.write(POST + b"{")
        assert b" 408 " in await ended(reader)


async def test_an_answer_that_nobody_reads_ends_its_connection(monkeypatch):
    monkeypatch.setattr(connections, "READ_S", 0.05)
    async with served() as port, asyncio.timeout(60), connected(port) as (reader, writer):
        writer.transport.pause_reading()
        writer.write(WHOLE.replace(b"/", b"/large", 1))
        await asyncio.sleep(1)
        writer.transport.resume_reading()
        assert len(await ended(reader)) < LARGE


async def test_a_new_connection_takes_the_place_of_one_that_waits(monkeypatch):
    monkeypatch.setattr(connections, "most_connections", lambda: 2)
    async with served() as port, asyncio.timeout(60), connected(port) as (reader, writer):
        writer.write(WHOLE)
        await reader.readuntil(b"0\r\n\r\n")
        async with connected(port) as (never, silent):
            silent.write(WHOLE[:-2])
            async with connected(port) as (third, asking):
                assert await ended(never) == b""
                asking.write(WHOLE)
                assert b" 200 " in await third.readuntil(b"\r\n\r\n")
        # the one that had asked before keeps its place
        writer.write(WHOLE)
        assert b" 200 " in await reader.readuntil(b"\r\n\r\n")


async def test_with_few_files_slow_heads_shut_nobody_out():
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        port = int(await asyncio.to_thread(server.stdout.readline))
        async with asyncio.timeout(120):
            slow = await asyncio.gather(
                *(asyncio.open_connection("127.0.0.1", port) for _ in range(200))
            )
            for _, writer in slow:
                writer.write(WHOLE[:-2])
            async with connected(port) as (reader, writer):
                writer.write(WHOLE)
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
            for _, writer in slow:
                writer.transport.abort()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
