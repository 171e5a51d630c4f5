"""Every reply or failure of a server ends a call with a text or one kind of error, which contains
no key.
"""

import json
import logging
import traceback

import httpx2
import openai
import pytest

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_reply import (
    ChatReply,
    CutOffError,
    ReplyError,
    RequestRefusedError,
    TooLongError,
    Unanswered,
    failure,
    read_reply,
    without_thoughts,
)
from docagent_rl.endpoints.usage import Usage
from tests.chat_server import completion
from tests.endpoints.conftest import KEY, said

REPORTED = Usage(7, 5)


DEEP = 20_000


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xef\xbb\xbf{}", b"data: [DONE]\n\n", b"[" * DEEP,
        b'{"choices":' * DEEP + b"1" + b"}" * DEEP,
        b'{"choices": [{"message": {"content": '
        b'"\xe9"}}]}', b'{"choices": {"0": {"message": "text"}}}',
        b'{"choices": [{"message": {"content": '
        b'"\\ud800"}}]}', b'{"error": "overloaded"}', b'{"choices": []}',
        b'{"choices": [{"message": {"content": '
        b'5}}]}', b'{"choices": [{"message": {"content": null}}]}',
        b'{"choices": [{"message": {"content": "a"}, "finish_reason": "abort"}]}',
        b'{"choices": [{"message": {"content": "a"}, "finish_reason": 5}]}',
    ],
)  # fmt: skip
def test_bodies_that_are_no_completion(body):
    with pytest.raises(ReplyError):
        read_reply(body, REPORTED)


@pytest.mark.parametrize(
    ("text", "said"),
    [("a", "a"), ("<think>hm</think> a ", "a"), ("hm</think>a", "a"), ("<think>hm</think>", ""),
     ("<think></think>a </think> b", "a </think> b")],
)  # fmt: skip
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
    found = read_reply(json.dumps(body).encode(), Usage(7, 0), partial=True)
    assert found == ChatReply("", 7, 4, thoughts="Still thinking", cut_off=True)


ECHOES = {"whole": KEY, "in lower case": KEY.lower(), "after much": "x" * 290 + KEY}


def everything(error) -> str:
    """Return everything that an error and its causes could print."""
    text, pending, seen = "".join(traceback.format_exception(error)), [error], []
    while pending:
        each = pending.pop()
        if each is None or any(each is known for known in seen):
            continue
        seen.append(each)
        text += repr(each) + str(getattr(each, "__dict__", "")) + repr(getattr(each, "body", ""))
        pending += [each.__cause__, each.__context__]
    return text


@pytest.mark.parametrize("status", [401, 429])
@pytest.mark.parametrize("echo", ECHOES)
async def test_a_key_that_is_sent_back_is_told_nowhere(server, caplog, key_env, status, echo):
    caplog.set_level(logging.DEBUG)
    text = f"Incorrect API key provided: {ECHOES[echo]}"
    for body in (json.dumps({"error": {"message": text}}), json.dumps({"detail": [text]}), text):
        # who is busy is waited for, but not beyond the deadline
        headers = {"X-Echo": f"Bearer {KEY}", **({"Retry-After": "60"} if status == 429 else {})}
        server.script = [(status, headers, body.encode())]
        with pytest.raises(InfrastructureError) as failed:
            await said(server.url, api_key_env=key_env)
        told = (everything(failed.value) + caplog.text).lower()
        assert KEY.lower() not in told
        assert f"HTTP {status}" in str(failed.value)


@pytest.mark.parametrize(
    "body", [completion("good", f"stop {KEY}"), {"choices": KEY}, f"the key is {KEY}"]
)
async def test_a_reply_tells_no_key(server, key_env, body):
    def refuse(text):
        raise ReplyError(f"no verdict in {text}")

    server.script = [body]
    with pytest.raises(InfrastructureError) as failed:
        await said(server.url, refuse, api_key_env=key_env)
    assert KEY not in everything(failed.value)


async def test_messages_of_the_server_stay_useful_and_harmless(server):
    server.script = [(400, {}, b'{"error": {"message": "model m\\u001b[2J\\n is not\\tloaded"}}')]
    with pytest.raises(InfrastructureError, match=r"HTTP 400.* m\\x1b\[2J is not loaded$"):
        await said(server.url)


async def test_the_address_is_told_without_its_secrets(server):
    url = server.url.replace("http://", "http://user:hunter2@") + "?code=hunter2"
    server.script = [401]
    with pytest.raises(
        InfrastructureError, match=r"planner 'm' at http://127\.0\.0\.1:\d+/v1"
    ) as failed:
        await said(url, attempts=1)
    assert "hunter2" not in everything(failed.value)


@pytest.mark.parametrize(
    ("status", "headers", "body", "tries"),
    [
        (429, {}, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}}, 6),
        (503, {"Retry-After": "0.05"}, {}, 6),
        # no wait fills an account, and who does not say when to come again may be broken
        (429, {}, {"error": {"message": "no money", "code": "insufficient_quota"}}, 3),
        (503, {}, {}, 3),
        (500, {"Retry-After": "0"}, {}, 3),
    ],
)
async def test_who_is_busy_is_waited_for_beyond_the_attempts(server, status, headers, body, tries):
    server.script = [(status, headers, json.dumps(body).encode())] * 5 + ["ready"]
    if tries == 6:
        assert await said(server.url, deadline_s=60) == "ready"
    else:
        with pytest.raises(InfrastructureError, match=f"HTTP {status}"):
            await said(server.url)
    assert len(server.requests) == tries


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "This model's maximum context length is 4096 tokens.", TooLongError),
        (
            400,
            "Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens).",
            TooLongError,
        ),
        (413, "the request exceeds the available context size, try increasing it", TooLongError),
        (
            422,
            "`inputs` tokens + `max_new_tokens` must be <= 4096; inputs must have less",
            TooLongError,
        ),
        (400, "the image exceeds the maximum of 20 megapixels", RequestRefusedError),
        (401, "context length of your plan", RequestRefusedError),
    ],
)
def test_a_conversation_that_does_not_fit_is_told_from_other_refusals(status, message, kind):
    request = httpx2.Request("POST", "http://127.0.0.1/v1")
    response = httpx2.Response(status, request=request)
    found = failure(
        openai.APIStatusError("told", response=response, body={"message": message}), "key"
    )
    assert type(found) is kind


def test_a_closed_door_is_told_from_a_request_that_was_refused():
    for status, closed in ((400, False), (401, True)):
        error = InfrastructureError("the model failed")
        error.__cause__ = RequestRefusedError("no", status)
        assert (Unanswered().reason(error) is None) is closed
