"""The server's application, called over an ASGI transport."""

import asyncio
import json
import threading
from types import SimpleNamespace

import httpx2
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.app import describe_index, make_search_app
from docagent_rl.retrieval.service.host import SearchHost
from tests.memory import within


@pytest.fixture(scope="module")
def served(store, bm25):
    info = describe_index(bm25, store, kind="bm25")
    return SearchHost(bm25, threads=2), lambda: info


@pytest.fixture(scope="module")
def app(served):
    return make_search_app(*served)


def call(app, method, path, **options):
    async def one():
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client:
            headers = {"Content-Type": "application/json", **options.pop("headers", {})}
            return await client.request(method, path, headers=headers, **options)

    return asyncio.run(one())


def search(app, **body):
    return call(app, "POST", wire.SEARCH, json=body)


def test_a_search_over_http_is_that_of_the_retriever(app, bm25, store):
    options, queries = {"doc_id": "animals", "top_k": 2}, ["cat", "birds", " "]
    reply = search(app, queries=queries, exclude=[["animals", 2]], **options)
    found = wire.read_hits(reply.content)
    assert found == bm25.search(queries, exclude=[PageRef("animals", 2)], **options)
    assert json.loads(reply.content)["results"][2] == []
    info = call(app, "GET", wire.INFO).json()
    assert (info["kind"], info["documents"], info["pages"]) == ("bm25", 3, 10)
    assert info["fingerprints"] == {"text": store.fingerprint("text")}
    assert call(app, "GET", wire.HEALTH).json() == {"status": "healthy"}


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        ({"queries": "cat"}, 422, "queries"),
        ({"queries": ["cat"], "top_k": 0}, 422, "top_k"),
        ({"queries": ["cat"], "exclude": [["animals", 0]]}, 422, "exclude.0.1"),
        ({"queries": ["cat"] * (wire.MOST_QUERIES + 1)}, 422, "queries"),
        ({"queries": ["cat"], "doc_id": "nobody"}, 404, "nobody"),
        ({"queries": ["cat"] * 256, "top_k": 1 << 16}, 200, None),  # of ten pages
        ({"queries": [1] * (1 << 20)}, 422, "queries.0"),
        ({"queries": [], "exclude": [1] * (1 << 20)}, 422, "exclude.0"),
        (b'{"queries": ["cat"], "queries": ["dog"]}', 422, "'queries' occurs twice"),
        (b"{", 422, ""),
        (b"x" * (wire.LARGEST_BODY + 1), 413, ""),
    ],
)
def test_bad_searches_get_one_line(app, body, status, named):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with within(256 << 20):
        reply = call(app, "POST", wire.SEARCH, content=content)
    if named is None:
        assert reply.status_code == status
        return
    assert (reply.status_code, list(reply.json())) == (status, ["error"])
    line = reply.json()["error"]
    assert named in line
    assert "\n" not in line
    assert len(line) <= 400


def test_what_a_retriever_raises_is_one_line(store):
    class Failing:
        def search(self, queries, **options):
            raise (
                UserError("no document\nhere")
                if queries == ["user"]
                else ZeroDivisionError("secret")
            )

    app = make_search_app(
        SearchHost(Failing(), threads=1), lambda: describe_index(Failing(), store)
    )
    for query, status, line in (
        ("user", 404, "no document here"),
        ("cat", 500, "ZeroDivisionError"),
    ):
        reply = search(app, queries=[query])
        assert reply.status_code == status
        assert line in reply.json()["error"]
        assert "secret" not in reply.text


def test_a_full_server_says_when_to_come_again(store):
    gate, calls = threading.Event(), []

    class Slow:
        def search(self, queries, **options):
            calls.append(queries)
            gate.wait(120)
            return [[] for _ in queries]

    host = SearchHost(Slow(), threads=1, max_waiting=1, deadline_s=0.1)
    app = make_search_app(host, lambda: describe_index(Slow(), store))
    while not calls:  # what is searched for keeps its place
        assert search(app, queries=["a"]).status_code == 504
    busy = search(app, queries=["b"])
    assert (busy.status_code, busy.headers["retry-after"]) == (503, "1")
    # and health is that of searches
    assert call(app, "GET", wire.HEALTH).status_code == 504
    gate.set()
    host.deadline_s = 60
    assert call(app, "GET", wire.HEALTH).status_code == 200


@pytest.mark.parametrize("contents", [("text",), (PageContent.TEXT,)])
def test_a_retriever_of_ones_own_names_what_it_reads(store, contents):
    own = SimpleNamespace(search=None, contents=contents)
    assert describe_index(own, store).fingerprints == {"text": store.fingerprint(PageContent.TEXT)}


@pytest.mark.parametrize("contents", [("texts",), "text", 3, (None,)])
def test_contents_that_no_page_has_are_one_error(store, contents):
    with pytest.raises(UserError, match=r"SimpleNamespace\.contents=.*image"):
        describe_index(SimpleNamespace(search=None, contents=contents), store)
