import asyncio
from contextlib import asynccontextmanager, suppress

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints import serving
from docagent_rl.endpoints.serving import Guard

WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@asynccontextmanager
async def served():
    """Yield the port of a server on this event loop."""
    server, listener = serving.make_server(Guard(hello)), serving.listen("127.0.0.1", 0)
    server.config.lifespan = "off"
    task = asyncio.create_task(server.serve(sockets=[listener]))
    yield listener.getsockname()[1]
    server.should_exit = True
    await task


async def test_a_head_without_bounds_is_refused():
    async with served() as port, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            writer.write(WHOLE[:-2] + b"X-More: more\r\n" * 10_000)
            assert b" 400 " in await reader.readuntil(b"\r\n")
            while await reader.read():
                pass
        writer.close()


def test_where_a_server_listens_is_told():
    with serving.listen("0.0.0.0", 0) as everywhere, serving.listen("::1", 0) as here:
        assert "0.0.0.0" not in serving.url_of(everywhere)
        assert serving.url_of(here).startswith("http://[::1]:")
    with pytest.raises(UserError, match="--port 0"):
        serving.listen("256.1.1.1", 0)
