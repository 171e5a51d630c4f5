from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from diskcache.core import MODE_PICKLE

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.chat_client import ChatEndpoint
from docagent_rl.endpoints.chat_reply import CutOffError
from docagent_rl.endpoints.endpoint import Price, Sampling
from docagent_rl.endpoints.meter import BudgetError, Meter
from docagent_rl.endpoints.remote_model import JsonCache, RemoteModel
from docagent_rl.endpoints.usage import image_part
from tests.chat_server import ChatServer, completion, serving
from tests.endpoints.conftest import HELLO
from tests.endpoints.test_usage import picture


def question(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def echo(request: dict) -> dict:
    """Says how often it may have been asked: the text that it was sent, and what it was sampled by."""
    said = request["messages"][-1]["content"]
    told = f"{said} {request.get('temperature')} {request.get('seed')}" if isinstance(said, str) else "seen"
    return completion(told, usage=(100, 10))


@pytest.fixture
async def server():
    async with serving(ChatServer(compute=echo)) as running:
        yield running


def model(server, folder=None, **more) -> RemoteModel:
    options = {"timeout_s": 5, "deadline_s": 10, "backoff_s": 0, "max_tokens": 50}
    options |= more.pop("endpoint", {})
    cache = JsonCache(folder, "test cache", forever=True) if folder else None
    return RemoteModel(ChatEndpoint(server.url, "m", **options), "teacher", cache=cache, **more)


async def test_asks_once_and_tells_the_tokens(server, tmp_path):
    asked = model(server, tmp_path, endpoint={"price": Price(10.0, 100.0)})
    first = await asked.ask(HELLO)
    again = await model(server, tmp_path).ask(HELLO)
    assert (first.text, first.prompt_tokens, first.completion_tokens) == ("hello 0.0 None", 100, 10)
    assert (first.cached, again.cached, first.estimated) == (False, True, False)
    assert dataclasses.replace(again, cached=False) == first
    assert len(server.requests) == 1
    assert asked.meter.spent.cost == pytest.approx(0.002)


async def test_equal_requests_in_flight_are_sent_once(server):
    server.slow_s = 0.1
    asked = model(server)
    replies = await asyncio.gather(*(asked.ask(HELLO) for _ in range(5)))
    assert len(server.requests) == 1
    assert sorted(reply.cached for reply in replies) == [False, True, True, True, True]
    (account,) = asked.meter.accounts.values()
    assert (account.requests, account.cached) == (1, 4)


async def test_other_sampling_and_another_server_are_another_reply(server, tmp_path):
    """Another server may call other weights by the same name."""
    asked = model(server, tmp_path)
    await asked.ask(HELLO)
    for sampling, sample in ((Sampling(temperature=0.5), 0), (Sampling(seed=3), 0), (Sampling(), 1)):
        assert not (await asked.ask(HELLO, sampling=sampling, sample=sample)).cached
        assert (await asked.ask(HELLO, sampling=sampling, sample=sample)).cached
        told = {name: server.requests[-1].get(name) for name in ("temperature", "seed")}
        assert told == {"temperature": sampling.temperature or 0.0, "seed": sampling.seed}
    moved = dataclasses.replace(asked.endpoint, base_url=f"{server.url}/")
    elsewhere = RemoteModel(moved, "teacher", cache=JsonCache(tmp_path, "test cache", forever=True))
    assert not (await elsewhere.ask(HELLO)).cached


async def test_pictures_are_told_apart_and_never_kept(server, tmp_path):
    asked = model(server, tmp_path)
    for side in (30, 40, 30):
        content = [{"type": "text", "text": "What?"}, image_part(picture(side, side))]
        await asked.ask([{"role": "user", "content": content}])
    assert len(server.requests) == 2
    assert server.requests[0]["messages"][0]["content"][1]["image_url"]["url"].startswith("data:image/jpeg")
    with sqlite3.connect(tmp_path / "cache.db") as database:
        rows = database.execute("SELECT key, value FROM Cache").fetchall()
    assert len(rows) == 2
    assert all(len(key) < 200 and len(value) < 200 for key, value in rows)


async def test_tokens_are_estimated_where_the_server_is_silent(server):
    server.compute = lambda request: completion("four")
    asked = model(server)
    reply = await asked.ask(HELLO)
    assert (reply.prompt_tokens, reply.completion_tokens, reply.estimated) == (6, 1, True)
    assert asked.meter.accounts["m"].estimated == 1


async def test_nothing_is_sent_beyond_the_budget_and_the_same_goes_on(server, tmp_path):
    asked = model(server, tmp_path, meter=Meter(max_requests=4))
    texts = [f"number {n}" for n in range(10)]
    done = await asyncio.gather(*(asked.ask(question(text)) for text in texts), return_exceptions=True)
    assert sum(isinstance(each, BudgetError) for each in done) == 6
    assert len(server.requests) == 4
    more = model(server, tmp_path, meter=Meter(max_requests=6))
    replies = await asyncio.gather(*(more.ask(question(text)) for text in texts))
    assert len(server.requests) == 10
    assert sum(reply.cached for reply in replies) == 4


async def test_what_a_request_reserves_covers_its_longest_reply(server):
    asked = model(server, endpoint={"price": Price(10.0, 1000.0)}, meter=Meter(max_cost=0.049))
    with pytest.raises(BudgetError, match="0 requests"):
        await asked.ask(HELLO)
    assert server.requests == []


async def test_who_is_busy_is_there_and_who_is_silent_is_named(server):
    server.compute = lambda request: 404
    with pytest.raises(UserError, match=r"teacher.*--base-url"):
        await model(server).check()
    server.compute = lambda request: (429, {"Retry-After": "600"}, b"{}")
    await model(server, endpoint={"check_s": 60}).check()


async def test_outages_are_counted_until_a_reply_comes(server, tmp_path):
    asked = model(server, tmp_path)
    counts = []
    for number, reply in enumerate(("good", 500, 500, 401, 500, 500, "good")):
        server.compute = lambda request, reply=reply: reply
        with contextlib.suppress(InfrastructureError):
            await asked.ask(question(f"{number}"))
        counts.append(asked.failed_in_a_row)
    assert counts == [0, 1, 2, 0, 1, 2, 0]
    server.compute = lambda request: 500
    with pytest.raises(InfrastructureError):
        await asked.ask(question("another"))
    # what is kept says nothing of the endpoint
    await asked.ask(question("0"))
    assert asked.failed_in_a_row == 1


async def test_a_partial_reply_is_kept_with_its_thoughts_and_never_taken_for_a_whole_one(tmp_path):
    def cut(request: dict) -> dict:
        body = completion("<search>rev", "length", usage=(7, 5))
        body["choices"][0]["message"]["reasoning_content"] = "I need the revenue."
        return body

    async with serving(ChatServer(compute=cut)) as server:
        first = await model(server, tmp_path).ask(HELLO, lambda _: None, partial=True)
        again = await model(server, tmp_path).ask(HELLO, lambda _: None, partial=True)
        assert (first.text, first.thoughts, first.cut_off) == ("<search>rev", "I need the revenue.", True)
        assert dataclasses.replace(again, cached=False) == first
        assert len(server.requests) == 1
        with pytest.raises(CutOffError):
            await model(server, tmp_path).ask(HELLO)


async def test_processes_that_ask_at_once_agree_on_one_reply(server, tmp_path):
    replies = iter(["first", "second"])
    server.slow_s = 0.1
    server.compute = lambda request: completion(next(replies), usage=(1, 1))
    both = await asyncio.gather(model(server, tmp_path).ask(HELLO), model(server, tmp_path).ask(HELLO))
    assert len(server.requests) == 2
    assert len({reply.text for reply in both}) == 1
    assert (await model(server, tmp_path).ask(HELLO)).text == both[0].text


def test_the_first_value_stays(tmp_path):
    caches = [JsonCache(tmp_path / "made", "test cache") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        kept = list(pool.map(lambda n: caches[n % 4].put_first("plan", f"plan {n}"), range(32)))
    assert len(set(kept)) == 1
    assert kept[0] == caches[0].get("plan")
    caches[0].put("plan", "another")
    assert caches[1].put_first("plan", "late") == "another"


def test_never_unpickles(tmp_path):
    JsonCache(tmp_path, "test cache").put("a", "text")
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("UPDATE Cache SET mode = ?", (MODE_PICKLE,))
    with pytest.raises(UserError, match="pickled"):
        JsonCache(tmp_path, "test cache").get("a")


def test_keeps_json_in_a_folder_that_is_made_with_the_first_value(tmp_path):
    cache = JsonCache(tmp_path / "run" / "replies", "test cache")
    assert cache.get("a") is None
    assert not (tmp_path / "run").exists()
    for key, value in {"a": "text", "b": False, "c": [1, {"x": None}]}.items():
        JsonCache(tmp_path / "run" / "replies", "test cache").put(key, value)
        assert cache.get(key) == value


@pytest.mark.parametrize("below", ["", "replies"])
def test_a_folder_that_is_a_file(tmp_path, below):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=f"test cache .*{below}"):
        JsonCache(tmp_path / "file" / below, "test cache")


@pytest.mark.parametrize("row", [b"no zlib", zlib.compress(b'{"half')])
def test_damaged_rows_are_a_failing_service(tmp_path, row):
    JsonCache(tmp_path, "test cache").put("a", "text")
    with sqlite3.connect(tmp_path / "cache.db") as database:
        database.execute("UPDATE Cache SET value = ?", (row,))
    with pytest.raises(InfrastructureError, match=f"test cache {tmp_path}"):
        JsonCache(tmp_path, "test cache").get("a")
