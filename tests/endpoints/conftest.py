"""A chat server on the loopback interface, a server that sends raw bytes, and their clients."""

import pytest

from docagent_rl.endpoints.endpoint import Endpoint
from docagent_rl.endpoints.remote_model import RemoteModel
from tests.chat_server import ChatServer, RawServer, serving

HELLO = [{"role": "user", "content": "hello"}]
KEY = "sk-Very/Secret+0123456789abcdef"


@pytest.fixture
async def server():
    async with serving(ChatServer()) as running:
        yield running


@pytest.fixture
def raw():
    with RawServer() as running:
        yield running


@pytest.fixture
def key_env(monkeypatch) -> str:
    """Set an environment variable that contains a key."""
    monkeypatch.setenv("DOCAGENT_TEST_KEY", KEY)
    return "DOCAGENT_TEST_KEY"


def client(
    url, name="planner", *, temperature=0.0, cache_dir=None, meter=None, **changes
) -> RemoteModel:
    """Return a model whose requests are retried without delay."""
    options = {"model": "m", "timeout_s": 5, "deadline_s": 10, "backoff_s": 0, **changes}
    endpoint = Endpoint(base_url=url, **options)
    return RemoteModel(endpoint, name, temperature=temperature, cache_dir=cache_dir, meter=meter)


async def said(url, accept=str, **changes) -> str:
    """Return the text of one reply."""
    asked = client(url, **changes)
    try:
        return (await asked.ask(HELLO, accept)).text
    finally:
        await asked.aclose()
