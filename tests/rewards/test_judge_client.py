from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.rewards.judge_client import VerdictError, parse_verdict

QUESTION = ("What is it?", ["a fox", "a red fox"], "A fox")


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("<judge>True</judge>", True),
        ("It matches. <judge> \nTRUE </judge> done", True),
        ("<judge>False</judge>", False),
        ("<judge>True</judge> wait: <judge>false</judge>", False),
        ("<judge>maybe <judge>True</judge>", True),
    ],
)
def test_verdicts(reply, verdict):
    assert parse_verdict(reply) is verdict


@pytest.mark.parametrize(
    "reply",
    [
        None, "", "True", "<judge>not true</judge>", "<judge></judge>", "<judge>True", "True</judge>",
        "<judge>True.</judge>", "<judge>True</judge><judge>?</judge>", "</judge><judge>", "<judge>1</judge>",
    ],
)  # fmt: skip
def test_no_verdicts(reply):
    with pytest.raises(VerdictError):
        parse_verdict(reply)


async def test_asks_once_at_temperature_zero(judge_server, openai_judge):
    assert await openai_judge().judge(*QUESTION) == 1.0
    (request,) = judge_server.requests
    assert request["model"] == "m"
    assert request["temperature"] == 0
    text = "".join(message["content"] for message in request["messages"])
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    for part in ("What is it?", "a red fox", "A fox"):
        assert part in text


async def test_false(judge_server, openai_judge):
    judge_server.script = ["<judge>False</judge>"]
    assert await openai_judge().judge(*QUESTION) == 0.0


async def test_templates_in_answers_stay_text(judge_server, openai_judge):
    await openai_judge().judge("{{ references }}", ["{% raw %}"], "{{ 7 * 7 }}")
    content = judge_server.requests[0]["messages"][1]["content"]
    assert "{{ 7 * 7 }}" in content
    assert "{% raw %}" in content


async def test_any_text_can_be_sent(judge_server, openai_judge):
    assert await openai_judge().judge("\ud83d?", ["\x00"], "\udfff blue") == 1.0
    assert judge_server.requests[0]["messages"][1]["content"].count("? blue") == 1


@pytest.mark.parametrize(
    "first",
    [
        "no idea",
        "<judge>not true</judge>",
        500,
        429,
        503,
        408,
        b"<html>busy</html>",
        {"choices": []},
        {"choices": None},
    ],
    ids=str,
)
async def test_transient_failures_are_retried(judge_server, openai_judge, first):
    judge_server.script = [first, "<judge>True</judge>"]
    assert await openai_judge().judge(*QUESTION) == 1.0
    assert len(judge_server.requests) == 2


@pytest.mark.parametrize("always", ["<judge>not true</judge>", 500, b"<html>"], ids=str)
async def test_three_attempts_and_no_more(judge_server, openai_judge, always):
    judge_server.script = [always]
    with pytest.raises(InfrastructureError, match=r"judge 'm' at http://127.0.0.1.*after 3 attempts"):
        await openai_judge().judge(*QUESTION)
    assert len(judge_server.requests) == 3


@pytest.mark.parametrize("status", [400, 401, 404])
async def test_refusals_are_final(judge_server, openai_judge, status):
    judge_server.script = [status]
    with pytest.raises(InfrastructureError):
        await openai_judge().judge(*QUESTION)
    assert len(judge_server.requests) == 1


async def test_a_hanging_server_costs_no_more_than_the_deadline(judge_server, openai_judge):
    judge_server.script = [30.0]
    began = time.perf_counter()
    with pytest.raises(InfrastructureError, match=r"within 0\.5 s"):
        await openai_judge(deadline_s=0.5).judge(*QUESTION)
    assert time.perf_counter() - began < 5


async def test_a_slow_request_times_out_and_is_tried_again(judge_server, openai_judge):
    judge_server.script = [30.0, "<judge>True</judge>"]
    assert await openai_judge(timeout_s=0.3).judge(*QUESTION) == 1.0


async def test_nobody_there(openai_judge):
    with pytest.raises(InfrastructureError, match="APIConnectionError"):
        await openai_judge(base_url="http://127.0.0.1:9/v1").judge(*QUESTION)


async def test_concurrency_is_bounded(judge_server, openai_judge):
    judge_server.slow_s = 0.02
    judge = openai_judge(concurrency=3)
    scores = await asyncio.gather(*(judge.judge("q", ["a"], str(n)) for n in range(12)))
    assert scores == [1.0] * 12
    assert judge_server.busiest == 3


async def test_waiting_counts_against_the_deadline(judge_server, openai_judge):
    judge_server.script = [30.0]
    judge = openai_judge(concurrency=1, deadline_s=0.5)
    began = time.perf_counter()
    results = await asyncio.gather(
        *(judge.judge("q", ["a"], str(n)) for n in range(5)), return_exceptions=True
    )
    assert all(isinstance(result, InfrastructureError) for result in results)
    assert time.perf_counter() - began < 5


async def test_cache(judge_server, openai_judge, tmp_path):
    judge = openai_judge(cache_dir=tmp_path / "verdicts")
    assert await judge.judge(*QUESTION) == 1.0
    judge_server.script = [500]
    assert await judge.judge(*QUESTION) == 1.0
    # another process would find it too
    assert await openai_judge(cache_dir=tmp_path / "verdicts").judge(*QUESTION) == 1.0
    assert len(judge_server.requests) == 1


@pytest.mark.parametrize(
    ("question", "changes"),
    [
        (("Other?", ["a fox", "a red fox"], "A fox"), {}),
        (("What is it?", ["a fox"], "A fox"), {}),
        (("What is it?", ["a fox", "a red fox"], "a fox"), {}),
        (QUESTION, {"model": "other"}),
    ],
)
async def test_the_cache_key_holds_everything(judge_server, openai_judge, tmp_path, question, changes):
    await openai_judge(cache_dir=tmp_path).judge(*QUESTION)
    await openai_judge(cache_dir=tmp_path, **changes).judge(*question)
    assert len(judge_server.requests) == 2


async def test_another_prompt_is_another_key(judge_server, openai_judge, tmp_path):
    prompt = tmp_path / "mine.yaml"
    prompt.write_text("user: 'Grade {{ prediction }} for {{ question }} by {{ references }}'")
    await openai_judge(cache_dir=tmp_path / "c").judge(*QUESTION)
    await openai_judge(cache_dir=tmp_path / "c", prompt=str(prompt)).judge(*QUESTION)
    assert len(judge_server.requests) == 2
    assert [message["role"] for message in judge_server.requests[1]["messages"]] == ["user"]


async def test_failures_are_not_cached(judge_server, openai_judge, tmp_path):
    judge = openai_judge(cache_dir=tmp_path)
    judge_server.script = [500, 500, 500, "<judge>False</judge>"]
    with pytest.raises(InfrastructureError):
        await judge.judge(*QUESTION)
    assert await judge.judge(*QUESTION) == 0.0


async def test_check(judge_server, openai_judge, tmp_path):
    judge = openai_judge(cache_dir=tmp_path)
    await judge.check()
    await judge.check()
    assert len(judge_server.requests) == 2
    judge_server.script = [401]
    with pytest.raises(UserError, match=f"'m' at {judge_server.url}.*base_url, model and api_key_env"):
        await judge.check()


async def test_the_key_is_sent_and_never_shown(judge_server, openai_judge, monkeypatch, caplog):
    monkeypatch.setenv("MY_JUDGE_KEY", "sk-very-secret")
    caplog.set_level(logging.DEBUG)
    judge = openai_judge(api_key_env="MY_JUDGE_KEY")
    assert await judge.judge(*QUESTION) == 1.0
    assert judge_server.headers[0]["Authorization"] == "Bearer sk-very-secret"
    judge_server.script = [401]
    with pytest.raises(InfrastructureError) as failure:
        await judge.judge(*QUESTION)
    assert "very-secret" not in f"{failure.value} {judge.endpoint!r} {vars(judge)} {caplog.text}"


async def test_every_event_loop_has_its_own_connections(judge_server, openai_judge):
    judge = openai_judge(concurrency=1)
    assert await judge.judge(*QUESTION) == 1.0
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(judge.judge(*QUESTION))))
    thread.start()
    while thread.is_alive():
        await asyncio.sleep(0.01)
    assert results == [1.0]
    await judge.aclose()
    assert await judge.judge(*QUESTION) == 1.0


async def test_the_event_loop_is_not_blocked(judge_server, openai_judge, tmp_path):
    judge_server.slow_s = 0.2
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await openai_judge(cache_dir=tmp_path).judge(*QUESTION)
    ticking.cancel()
    assert ticks >= 5
