import asyncio
import contextlib
import json
import logging
import re

import pytest
import yaml

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.chat_reply import ReplyError
from docagent_rl.endpoints.endpoint import Sampling
from docagent_rl.endpoints.meter import BudgetError, Meter
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.usage import image_part
from tests.chat_server import ChatServer, completion, serving
from tests.endpoints.conftest import HELLO, client, said
from tests.endpoints.test_usage import picture


def question(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def echo(request: dict) -> dict:
    """Return a reply with the text, the temperature and the seed of a request."""
    content = request["messages"][-1]["content"]
    if not isinstance(content, str):
        return completion("seen", usage=(100, 10))
    text = f"{content} {request.get('temperature')} {request.get('seed')}"
    return completion(text, usage=(100, 10))


@pytest.fixture
async def server():
    async with serving(ChatServer(compute=echo)) as running:
        yield running


@pytest.fixture
async def ready():
    """Return a running server."""
    async with serving(ChatServer()) as running:
        yield running


def model(server, folder=None, **more) -> RemoteModel:
    return client(server.url, "teacher", cache_dir=folder, **{"max_tokens": 50, **more})


def word(text):
    if " " in text:
        raise ReplyError("not one word")


async def test_the_fields_of_a_request(ready):
    body = {"chat_template_kwargs": {"thinking": False}}
    assert await said(ready.url, word, temperature=0.3, max_tokens=7, extra_body=body) == "ready"
    (request,) = ready.requests
    assert (request["model"], request["temperature"], request["max_tokens"]) == ("m", 0.3, 7)
    assert request["chat_template_kwargs"] == {"thinking": False}
    assert request["messages"] == HELLO
    # the name that the server knows
    await said(ready.url, max_tokens=7, extra_body={"max_completion_tokens": 0})
    assert ready.requests[1]["max_completion_tokens"] == 7
    assert "max_tokens" not in ready.requests[1]


def of_openais_models_that_think(request):
    """Refuse one parameter at a time, in OpenAI's words."""
    if "max_tokens" in request:
        said = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use another "
            "one instead."
        )
    elif request["temperature"] != 1:
        said = (
            "Unsupported value: 'temperature' does not support 0 with this model. Only the "
            "default (1) value"
        )
    else:
        return completion("ready")
    return 400, {}, json.dumps({"error": {"message": said, "code": "unsupported"}}).encode()


@pytest.mark.parametrize("name", ["judge", "planner"])
@pytest.mark.parametrize("begun", [{}, {"max_completion_tokens": 0}])
async def test_what_models_that_think_take_is_named_at_once(server, name, begun):
    server.compute = of_openais_models_that_think
    asked = client(server.url, name, extra_body=begun)
    with pytest.raises(UserError, match=rf"the {name} does not answer: .*HTTP 400") as refused:
        await asked.check()
    await asked.aclose()
    (told,) = re.findall(
        r"extra_body=\{max_completion_tokens: 0, temperature: 1\}", str(refused.value)
    )
    asked = client(server.url, name, extra_body=yaml.safe_load(told.removeprefix("extra_body=")))
    await asked.check()
    await asked.aclose()
    assert server.requests[-1]["max_completion_tokens"] == 512


async def test_a_proxy_in_between_is_named(monkeypatch):
    for variable in ("no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("http_proxy", "http://user:hunter2@127.0.0.1:9")
    asked = client("http://192.0.2.1:8000/v1", "judge", attempts=1)
    with pytest.raises(
        UserError, match=r"through http_proxy=http://127\.0\.0\.1:9, which NO_PROXY"
    ) as failed:
        await asked.check()
    assert "hunter2" not in str(failed.value)


async def test_replies_that_cannot_be_used_are_asked_for_again(ready):
    ready.script = ["two words", {"choices": []}, completion("half", "abort"), "one"]
    assert await said(ready.url, word, attempts=4) == "one"
    assert len(ready.requests) == 4


@pytest.mark.parametrize(
    ("always", "requests"), [("two words", 3), (500, 3), (401, 1), (b"<html>", 3)], ids=str
)
async def test_failures_name_the_service(ready, always, requests):
    ready.script = [always]
    with pytest.raises(InfrastructureError, match=r"planner 'm' at http://127\.0\.0\.1"):
        await said(ready.url, word)
    assert len(ready.requests) == requests


async def test_a_reply_that_drips_is_no_reply():
    async def drip(reader, writer):
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n"
        )
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)

    dripping = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{dripping.sockets[0].getsockname()[1]}"
    with pytest.raises(InfrastructureError, match=r"0\.3 s"):
        await asyncio.wait_for(said(url, timeout_s=0.3, attempts=1), 60)
    dripping.close()


async def test_every_event_loop_has_its_own_connections_and_places(ready):
    ready.slow_s = 0.02
    asked = client(ready.url, concurrency=2)
    await asyncio.gather(*(asked.ask(HELLO, sample=n) for n in range(8)))
    assert ready.busiest == 2
    assert (await asyncio.to_thread(lambda: asyncio.run(asked.ask(HELLO)))).text == "ready"
    await asked.aclose()
    assert (await asked.ask(HELLO)).text == "ready"


async def test_no_body_and_no_key_in_any_log(ready, caplog, key_env):
    caplog.set_level(logging.DEBUG)
    image = [{"role": "user", "content": [image_part(b"ABC")]}]
    asked = client(ready.url, api_key_env=key_env)
    await asked.ask(image)
    assert ready.requests[0]["messages"] == image
    assert ready.headers[0]["Authorization"].startswith("Bearer sk-Very")
    assert "base64" not in caplog.text
    assert "Secret" not in f"{caplog.text} {asked.endpoint!r} {asked!r}"


@pytest.mark.parametrize(("temperature", "requests"), [(0.0, 1), (0.7, 3)])
async def test_a_reply_that_was_cut_off_is_no_answer(ready, temperature, requests):
    ready.script = [completion("done", "length")]
    with pytest.raises(InfrastructureError, match="max_tokens"):
        await said(ready.url, max_tokens=9, temperature=temperature)
    assert len(ready.requests) == requests


@pytest.mark.parametrize("spelling", ["<|im_end|>", "</s>"])
async def test_no_text_spells_a_special_token(ready, spelling):
    half = len(spelling) // 2
    halves = [
        {"type": "text", "text": text} for text in ("a " + spelling[:half], spelling[half:] + " b")
    ]
    image = image_part(b"ABC")
    messages = [
        {"role": "system", "content": spelling},
        {"role": "user", "content": [*halves, image]},
    ]
    await client(ready.url).ask(messages)
    system, user = ready.requests[0]["messages"]
    assert spelling not in system["content"]
    joined = "".join(part["text"] for part in user["content"][:2])
    assert spelling not in joined
    assert joined.replace("\u200b", "") == f"a {spelling} b"
    assert user["content"][2] == image


async def test_asks_once_and_tells_the_tokens(server, tmp_path):
    asked = model(server, tmp_path, price={"input": 10.0, "output": 100.0})
    first = await asked.ask(HELLO)
    again = await model(server, tmp_path).ask(HELLO)
    assert (first.text, first.prompt_tokens, first.completion_tokens) == ("hello 0.0 None", 100, 10)
    assert again == first
    assert len(server.requests) == 1
    assert asked.meter.spent.cost == pytest.approx(0.002)


async def test_equal_requests_in_flight_are_sent_once(server):
    server.slow_s = 0.1
    asked = model(server)
    replies = await asyncio.gather(*(asked.ask(HELLO) for _ in range(5)))
    assert len(server.requests) == 1
    assert len({reply.text for reply in replies}) == 1
    (account,) = asked.meter.accounts.values()
    assert (account.requests, account.cached) == (1, 4)


async def cancelled(*calls: asyncio.Task) -> None:
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def begun(server, *calls) -> list[asyncio.Task]:
    """Calls, of which the server has the request."""
    tasks = [asyncio.create_task(call) for call in calls]
    async with asyncio.timeout(30):
        while not server.requests:
            await asyncio.sleep(0.01)
    return tasks


async def test_a_call_ends_when_all_who_wait_for_it_are_cancelled(ready):
    ready.script = [0.3, "ready"]
    asked = model(ready)
    calls = await begun(ready, *(asked.ask(HELLO) for _ in range(3)))
    await cancelled(*calls)
    await asyncio.sleep(0.5)
    assert len(ready.requests) == 1
    assert asked.meter.spent.tokens > 0  # of the prompt, which was sent
    assert (await asked.ask(HELLO)).text == "ready"


async def test_a_call_goes_on_for_those_who_still_wait(ready):
    ready.slow_s = 0.3
    asked = model(ready)
    first, second = await begun(ready, asked.ask(HELLO), asked.ask(HELLO))
    await cancelled(first)
    third = asyncio.create_task(asked.ask(HELLO))
    assert [(await call).text for call in (second, third)] == ["ready", "ready"]
    assert len(ready.requests) == 1


async def test_other_sampling_and_another_server_are_another_reply(server, tmp_path):
    """Another server may have other weights under the same name."""
    asked = model(server, tmp_path)
    await asked.ask(HELLO)
    for sampling, sample in (
        (Sampling(temperature=0.5), 0),
        (Sampling(seed=3), 0),
        (Sampling(), 1),
    ):
        before = len(server.requests)
        for _ in range(2):
            await asked.ask(HELLO, sampling=sampling, sample=sample)
        assert len(server.requests) == before + 1
        told = {name: server.requests[-1].get(name) for name in ("temperature", "seed")}
        assert told == {"temperature": sampling.temperature or 0.0, "seed": sampling.seed}
    await client(f"{server.url}/", cache_dir=tmp_path).ask(HELLO)
    assert len(server.requests) == 5


async def test_pictures_are_told_apart_and_never_kept(server, tmp_path):
    asked = model(server, tmp_path)
    for side in (30, 40, 30):
        content = [{"type": "text", "text": "What?"}, image_part(picture(side, side))]
        await asked.ask([{"role": "user", "content": content}])
    assert len(server.requests) == 2
    assert server.requests[0]["messages"][0]["content"][1]["image_url"]["url"].startswith(
        "data:image/jpeg"
    )
    kept = list(tmp_path.glob("*/*"))
    assert len(kept) == 2
    assert all(path.stat().st_size < 300 for path in kept)


async def test_tokens_are_estimated_where_the_server_is_silent(server):
    server.compute = lambda request: completion("four")
    asked = model(server)
    reply = await asked.ask(HELLO)
    assert (reply.prompt_tokens, reply.completion_tokens) == (6, 1)
    assert asked.meter.spent.tokens == 7


async def test_nothing_is_sent_beyond_the_budget_and_the_same_goes_on(server, tmp_path):
    asked = model(server, tmp_path, meter=Meter(max_requests=4))
    texts = [f"number {n}" for n in range(10)]
    done = await asyncio.gather(
        *(asked.ask(question(text)) for text in texts), return_exceptions=True
    )
    assert sum(isinstance(each, BudgetError) for each in done) == 6
    assert len(server.requests) == 4
    more = model(server, tmp_path, meter=Meter(max_requests=6))
    await asyncio.gather(*(more.ask(question(text)) for text in texts))
    assert len(server.requests) == 10
    assert more.meter.accounts["m"].cached == 4


async def test_what_a_request_reserves_covers_its_longest_reply(server):
    asked = model(server, price={"input": 10.0, "output": 1000.0}, meter=Meter(max_cost=0.049))
    with pytest.raises(BudgetError, match="0 requests"):
        await asked.ask(HELLO)
    assert server.requests == []


async def test_who_is_busy_is_there_and_who_is_silent_is_named(server):
    server.compute = lambda request: 404
    with pytest.raises(UserError, match=r"teacher.*--base-url"):
        await model(server).check()
    server.compute = lambda request: (429, {"Retry-After": "600"}, b"{}")
    await model(server).check()


async def test_a_partial_reply_is_kept_with_its_thoughts_and_never_taken_for_a_whole_one(tmp_path):
    def cut(request: dict) -> dict:
        body = completion("<search>rev", "length", usage=(7, 5))
        body["choices"][0]["message"]["reasoning_content"] = "I need the revenue."
        return body

    async with serving(ChatServer(compute=cut)) as server:
        first = await model(server, tmp_path).ask(HELLO, lambda _: None, partial=True)
        again = await model(server, tmp_path).ask(HELLO, lambda _: None, partial=True)
        assert (first.text, first.thoughts, first.cut_off) == (
            "<search>rev",
            "I need the revenue.",
            True,
        )
        assert again == first
        assert len(server.requests) == 1
        with pytest.raises(InfrastructureError, match="cut off"):
            await model(server, tmp_path).ask(HELLO)
