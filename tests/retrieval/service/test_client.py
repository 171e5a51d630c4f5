"""The client with the real server, and with servers that send anything."""

import asyncio
import gc
import gzip
import json
import re
import time
from contextlib import suppress

import pytest

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import PageRef
from docagent_rl.endpoints.http_client import LONGEST_REPLY
from docagent_rl.envs.search_log import noting
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval.base import NotTakenError
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.service.client import HttpRetriever
from tests.retrieval.service.conftest import OPTIONS, TOKEN


def retriever_at(url, store, **service):
    config = RetrieverConfig(backend="http", service={"url": url, **service})
    return HttpRetriever(config, store, "docagent.retriever")


HOSTILE = ["\x00\x01\x1b[31m cat", "cat \ud83d", "c\u202eat", "cat " * 2000, "\U0010ffff cat"]


@pytest.mark.slow
async def test_answers_are_those_of_the_retriever(server, store, bm25):
    client = retriever_at(server, store, token_env="MY_TOKEN")
    queries = ["cat", "birds sing", "", " \n", "unheard", *HOSTILE]
    for options in OPTIONS:
        expected = bm25.search(queries, **options)
        assert await asyncio.to_thread(client.search, queries, **options) == expected
    # awaited on the event loop, without threads
    found = await asyncio.gather(*(client.asearch(["cat"], top_k=n) for n in range(1, 9)))
    assert found == [bm25.search(["cat"], top_k=n) for n in range(1, 9)]
    with pytest.raises(UserError, match="'nobody'"):
        await client.asearch(["cat"], doc_id="nobody", top_k=1)
    # a megabyte of query has no hits and is counted
    with noting() as notes:
        assert await RetrieverService(client).search("cat" * 350_000, doc_id=None, top_k=2) == []
    assert (len(notes), notes[0].hits, "32768" in notes[0].refused) == (1, (), True)
    await client.aclose()


@pytest.mark.slow
def test_the_server_is_checked(server, store, make_store, tmp_path):
    asyncio.run(retriever_at(server, store, token_env="MY_TOKEN").check())
    other = make_store(tmp_path, {"animals": ["another text"]})
    for url, theirs, error, named in (
        (server, other, UserError, "10 pages of 3"),
        (f"{server}/nowhere", store, UserError, r"service\.url"),
        ("http://127.0.0.1:9", store, InfrastructureError, r"service\.url=http://127\.0\.0\.1:9"),
    ):
        with pytest.raises(error, match=named):
            asyncio.run(retriever_at(url, theirs, token_env="MY_TOKEN").check())
    without = retriever_at(server, store)
    with pytest.raises(UserError, match=r"service\.token_env"):
        asyncio.run(without.check())
    with pytest.raises(InfrastructureError, match=r"service\.token_env"):
        without.search(["cat"], top_k=1)
    assert TOKEN not in repr(retriever_at(server, store, token_env="MY_TOKEN"))


# -- servers that answer anything


def asked(answer, store, attempts=2, query="cat", **service):
    """Return the hits or the error of one search by an environment, its note, and the number of
    requests.

    The server responds with `answer(body)`: bytes, or (status, headers, bytes); None ends the
    connection.
    """
    calls = []

    async def handle(reader, writer):
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                (length,) = re.findall(rb"(?i)content-length: (\d+)", head) or [0]
                calls.append(await reader.readexactly(int(length)))
                got = answer(calls[-1])
                if asyncio.iscoroutine(got):
                    got = await got
                if got is None:
                    break
                status, headers, data = got if isinstance(got, tuple) else (200, {}, got)
                head = f"HTTP/1.1 {status} X\r\n" + "".join(
                    f"{k}: {v}\r\n" for k, v in headers.items()
                )
                writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
                await writer.drain()
        writer.close()

    async def work():
        async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            client = retriever_at(url, store, **service)
            once = RetrieverService(client, attempts=attempts, deadline_s=120.0, backoff_s=0.001)
            with noting() as notes:
                try:
                    return await once.search(query, doc_id=None, top_k=2), notes, len(calls)
                except InfrastructureError as error:
                    return error, notes, len(calls)
                finally:
                    await client.aclose()

    return asyncio.run(work())


def body(**value):
    return json.dumps(value).encode()


ONE = body(results=[[["animals", 1, 1.0]]])


def test_connections_are_closed_as_their_event_loop_ends(store, caplog):
    async def handle(reader, writer):
        await reader.readuntil(b"}")
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: %d\r\n\r\n" % len(ONE) + ONE)
        await reader.read()  # until the client goes
        writer.close()

    async def work():
        listening = await asyncio.start_server(handle, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        (hits,) = await retriever_at(url, store).asearch(["cat"], top_k=1)
        return hits

    gc.collect()  # what other tests left
    caplog.clear()
    (hit,) = asyncio.run(work())
    gc.collect()
    assert hit.ref == PageRef("animals", 1)
    assert "Unclosed" not in caplog.text


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        body(results=[[["animals", 1, float("nan")]]]),
        body(results=[[["animals", 0, 1.0]]]),
        body(results=[[["animals", n, 1.0] for n in (1, 2, 3)]]),
        (502, {}, b"bad gateway"),
        (200, {"Content-Encoding": "gzip"}, gzip.compress(ONE)),  # little may unpack to much
        ONE + b" " * LONGEST_REPLY,
    ],
)
def test_garbage_is_a_failure_of_the_service(store, answer):
    error, notes, calls = asked(lambda _: answer, store)
    assert isinstance(error, InfrastructureError)
    assert "\n" not in str(error)
    assert (calls, notes) == (2, [])


@pytest.mark.parametrize(
    ("answer", "named", "calls"),
    [
        # pages that the store does not have mean another index
        (body(results=[[["animals", 99, 1.0]]]), "animals#99", 1),
        # a server that refuses everything is set up wrong, and a wrong address or token names its
        # key
        *[
            ((status, {}, b"{}"), "docagent.retriever.service.url", None)
            for status in (400, 413, 422)
        ],
        *[((status, {}, b""), "docagent.retriever.service.token_env", 1) for status in (401, 403)],
        *[
            ((status, {"Location": "/x"}, b""), "docagent.retriever.service.url", 1)
            for status in (404, 302)
        ],
    ],
)
def test_what_is_set_up_wrong_is_named(store, answer, named, calls):
    error, _, found = asked(lambda _: answer, store)
    assert isinstance(error, InfrastructureError)
    assert named in str(error)
    assert calls in (None, found)


@pytest.mark.parametrize("status", [422, 500])
def test_what_a_query_alone_is_refused_for_is_the_policys_fault(store, status):
    def answer(sent):
        return (status, {}, body(error="no poison")) if b"poison" in sent else ONE

    hits, notes, _ = asked(answer, store, query="poison")
    assert hits == []
    assert notes[0].refused
    assert len(asked(answer, store)[0]) == 1


def test_a_busy_server_or_a_lost_connection_is_tried_again(store):
    """A busy server is retried as often as the deadline allows."""
    busy = (503, {}, b"")
    for answers, attempts in (([busy, busy, busy, ONE], 1), ([None, ONE], 2)):
        left = iter(answers)
        hits, notes, calls = asked(lambda _, left=left: next(left), store, attempts=attempts)
        assert [hit.ref for hit in hits] == [PageRef("animals", 1)]
        assert notes[0].tries == calls == len(answers)


def test_a_busy_server_is_asked_no_sooner_than_it_says(store):
    left, began = iter([(429, {"Retry-After": "0.3"}, b""), ONE]), time.monotonic()
    hits, *_ = asked(lambda _: next(left), store, attempts=1)
    assert (len(hits), time.monotonic() - began >= 0.3) == (1, True)


def test_a_hanging_server_costs_its_timeouts(store):
    error, *_ = asked(lambda _: asyncio.Event().wait(), store, timeout_s=0.1)
    assert isinstance(error, InfrastructureError)
    assert "0.1 s" in str(error)


async def test_a_dead_server_is_waited_for_until_the_deadline(store):
    client = retriever_at("http://127.0.0.1:9", store)
    service = RetrieverService(client, attempts=1, deadline_s=0.2, backoff_s=0.02)
    with pytest.raises(InfrastructureError, match=r"0\.2 s"):
        await service.search("cat", doc_id=None, top_k=1)
    with pytest.raises(NotTakenError):
        await client.asearch(["cat"], top_k=1)
    await client.aclose()
