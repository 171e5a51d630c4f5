"""No service can hold a client for ever, send it elsewhere, or make it print a key."""

import asyncio
import json

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.http_client import HIDDEN, NO_KEY, public_url, read_api_key, redacted, without_key
from tests.chat_server import RawServer, completion
from tests.endpoints.conftest import KEY, client, said


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
    for url in ("host:8/v1", "ftp://u:hunter2@host", "http://u:hunter2@host:port", "http://u:hunter2@/v1"):
        with pytest.raises(UserError, match=r"judge\.base_url=") as caught:
            client(url, "judge")
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


def test_a_key_is_taken_out():
    assert redacted(f"key {KEY}.{KEY.upper()}", KEY) == f"key {HIDDEN}.{HIDDEN}"
    assert redacted("none", NO_KEY) == "none"
    # short ones are words
    assert without_key(b"EMPTY none", "EMPTY") == b"EMPTY none"
    assert without_key(f"it is {KEY}!".encode(), KEY) == f"it is {HIDDEN}!".encode()
