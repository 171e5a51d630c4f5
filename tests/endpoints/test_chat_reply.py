"""Whatever comes back, a call ends in a text or in one kind of error."""

from __future__ import annotations

import asyncio
import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_client import ChatClient, ChatEndpoint
from docagent_rl.endpoints.chat_reply import ChatReply, CutOffError, ReplyError, read_reply, without_thoughts
from docagent_rl.endpoints.usage import Usage
from tests.chat_server import completion
from tests.endpoints.conftest import HELLO

REPORTED = Usage(7, 5)


def outcome(raw) -> str | InfrastructureError:
    """What the client makes of the reply; anything but an infrastructure failure is raised."""

    async def ask():
        endpoint = ChatEndpoint(raw.url, "m", timeout_s=5, deadline_s=10, attempts=2, backoff_s=0)
        asked = ChatClient(endpoint, "planner")
        try:
            return await asked.ask(HELLO, lambda text: text)
        except InfrastructureError as error:
            return error
        finally:
            await asked.aclose()

    raw.requests = 0
    return asyncio.run_coroutine_threadsafe(ask(), raw.loop).result(30)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
PATHS = [
    (), ("choices",), ("choices", 0), ("choices", 0, "message"), ("choices", 0, "message", "content"),
    ("choices", 0, "finish_reason"),
]  # fmt: skip


def replaced(path, value):
    body = copy.deepcopy(completion("good"))
    if not path:
        return value
    *way, last = path
    node = body
    for step in way:
        node = node[step]
    node[last] = value
    return body


@given(st.sampled_from(PATHS), VALUES)
def test_any_value_in_any_place(path, value):
    wanted = {
        PATHS[4]: value if isinstance(value, str) else None,
        PATHS[5]: "good" if value in (None, "stop") else None,
    }.get(path)
    body = json.dumps(replaced(path, value)).encode()
    if wanted is None:
        with pytest.raises(ReplyError):
            read_reply(body, REPORTED)
    else:
        assert read_reply(body, REPORTED).text == wanted


@given(st.binary(max_size=200))
def test_any_bytes(body):
    with pytest.raises(ReplyError):
        read_reply(body, REPORTED)


@pytest.mark.parametrize("status", [204, 302, 418, 599])
@pytest.mark.parametrize("body", [b"\xff", b'{"error": [null]}'])
def test_any_status(raw, status, body):
    raw.respond(body, status)
    assert isinstance(outcome(raw), InfrastructureError)


DEEP = 20_000


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xef\xbb\xbf{}", b"data: [DONE]\n\n", b"[" * DEEP, b'{"choices":' * DEEP + b"1" + b"}" * DEEP,
        b'{"choices": [{"message": {"content": "\xe9"}}]}', b'{"choices": {"0": {"message": "text"}}}',
        b'{"choices": [{"message": {"content": "\\ud800"}}]}', b'{"error": "overloaded"}',
    ],
)  # fmt: skip
def test_bodies_that_are_no_completion(body):
    with pytest.raises(ReplyError):
        read_reply(body, REPORTED)


@pytest.mark.parametrize(
    "response",
    [
        b"", b"\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 302 Found\r\nlocation: /\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    ],
)  # fmt: skip
def test_what_is_no_http_response(raw, response):
    raw.response = response
    assert isinstance(outcome(raw), InfrastructureError)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a", "a"),
        ("<think>hm</think> a ", "a"),
        ("hm</think>a", "a"),
        ("<think></think>a </think> b", "a </think> b"),
        ("<think>hm</think>", ""),
    ],
)
def test_thoughts_are_left_out(text, said):
    assert without_thoughts(text) == said


@pytest.mark.parametrize("text", ["<think>hm", " <think>hm <judge>True</judge>", "</think><think>"])
def test_thoughts_must_end(text):
    with pytest.raises(ReplyError, match="thoughts"):
        without_thoughts(text)


def test_a_partial_reply_keeps_what_was_cut_off_and_its_thoughts_apart():
    body = completion("<search>rev", "length")
    body["choices"][0]["message"]["reasoning_content"] = "I need the revenue."
    found = read_reply(json.dumps(body).encode(), REPORTED, partial=True)
    assert found == ChatReply("<search>rev", 7, 5, thoughts="I need the revenue.", cut_off=True)
    with pytest.raises(CutOffError):
        read_reply(json.dumps(body).encode(), REPORTED)
    body["choices"][0]["message"] = {"content": None, "reasoning": "Still thinking"}
    found = read_reply(json.dumps(body).encode(), Usage(7, 0, estimated=True), partial=True)
    assert (found.text, found.thoughts, found.cut_off) == ("", "Still thinking", True)
    assert (found.completion_tokens, found.estimated) == (4, True)
