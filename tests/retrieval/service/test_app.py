"""The server's application over an ASGI transport."""

from __future__ import annotations

import asyncio
import base64
import json
import threading

import httpx2
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.config import ServerApi
from docagent_rl.retrieval.service import wire
from docagent_rl.retrieval.service.app import Served, describe_index, make_app
from docagent_rl.retrieval.service.host import SearchHost
from docagent_rl.retrieval.service.vrag_rl import image_name, page_of


@pytest.fixture(scope="module")
def served(store, bm25):
    return Served(store, SearchHost(bm25, threads=2), describe_index(bm25, store, kind="bm25"))


@pytest.fixture(scope="module")
def app(served):
    return make_app(served, apis=tuple(ServerApi))


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
    found = wire.read_reply(reply.content)
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
        ({"queries": [1]}, 422, "queries.0"),
        ({"queries": ["cat"], "exclude": [["animals", 0]]}, 422, "exclude.0.1"),
        ({"queries": ["c" * (wire.LONGEST_QUERY + 1)]}, 413, "queries.0"),
        ({"queries": ["cat"] * (wire.MOST_QUERIES + 1)}, 413, "queries"),
        ({"queries": ["cat"], "doc_id": "nobody"}, 404, "nobody"),
        (b"{", 400, ""),
        (b"[" * 100_000, 400, ""),
        (b'{"queries": ["\\ud800"]}', 400, ""),
        (b"x" * (wire.LARGEST_BODY + 1), 413, ""),
    ],
)
def test_bad_searches_get_one_line(app, body, status, named):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    reply = call(app, "POST", wire.SEARCH, content=content)
    assert (reply.status_code, list(reply.json())) == (status, ["error"])
    line = reply.json()["error"]
    assert named in line
    assert "\n" not in line
    assert len(line) <= 400


def test_bodies_and_addresses_are_bounded(app):
    sent = []

    async def pieces():
        for number in range(100):
            sent.append(number)
            yield bytes(1 << 20)

    assert call(app, "POST", wire.SEARCH, content=pieces()).status_code == 413
    assert len(sent) < 100
    sent.clear()

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/search", "headers": [], "query_string": b"a" * 70_000}
    asyncio.run(app(scope, None, send))
    assert sent[0]["status"] == 414
    assert list(json.loads(sent[1]["body"])) == ["error"]


def test_a_token_is_asked_for_everywhere_but_for_health(served):
    app = make_app(served, token="right", apis=tuple(ServerApi))
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "right"}):
        reply = call(app, "POST", wire.SEARCH, json={"queries": ["cat"]}, headers=headers)
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
        assert call(app, "POST", "/batch_fetch", headers=headers, content=b"{").status_code == 401
    for path in (wire.HEALTH, "/health"):
        assert call(app, "GET", path).json()["status"] == "healthy"
    good = {"Authorization": "Bearer right"}
    assert call(app, "POST", wire.SEARCH, json={"queries": ["cat"]}, headers=good).status_code == 200
    # and only the APIs that were asked for are there
    for method, path in (("GET", "/search?queries=cat"), ("POST", "/batch_search"), ("GET", "/docs")):
        assert call(make_app(served), method, path).status_code == 404


def test_what_a_retriever_raises_is_one_line(store):
    class Failing:
        def search(self, queries, **options):
            raise UserError("no document\nhere") if queries == ["user"] else ZeroDivisionError("secret")

    app = make_app(Served(store, SearchHost(Failing(), threads=1), describe_index(Failing(), store)))
    for query, status, line in (("user", 404, "no document here"), ("cat", 500, "ZeroDivisionError")):
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
    app = make_app(Served(store, host, describe_index(Slow(), store)))
    while not calls:  # what is searched for keeps its place
        assert search(app, queries=["a"]).status_code == 504
    busy = search(app, queries=["b"])
    assert (busy.status_code, float(busy.headers["retry-after"]) > 0) == (503, True)
    # and health is that of searches
    assert call(app, "GET", wire.HEALTH).status_code == 504
    gate.set()
    host.deadline_s = 60
    assert call(app, "GET", wire.HEALTH).status_code == 200


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["queries", "query", "id", "doc_id", "top_k", "top_n", "exclude", "mm_fetch", "x"])
bodies = (
    st.binary(max_size=60)
    | json_values.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(names, json_values, max_size=5).map(lambda value: json.dumps(value).encode())
)
paths = st.sampled_from(
    [wire.SEARCH, wire.INFO, "/search", "/batch_search", "/batch_fetch", "/health", "/a%00b"]
)


@settings(max_examples=25)
@given(path=paths, method=st.sampled_from(["GET", "POST", "PUT"]), body=bodies, query=st.text(max_size=30))
@example(path="/batch_fetch", method="POST", body=b'{"query":["9-th"],"id":["../../etc"]}', query="")
@example(path="/batch_search", method="POST", body=b'{"query":["cat"],"id":["../x"]}', query="")
def test_no_request_breaks_the_server(app, path, method, body, query):
    reply = call(app, method, path, content=body, params={"queries": query})
    assert reply.status_code in (200, 400, 404, 405, 413, 422)
    if reply.status_code != 200:
        line = reply.json()["error"]
        assert line
        assert "\n" not in line
        assert "Traceback" not in line


FOLDER = "./search_engine/corpus/img"
FORM = "Request form is wrong, please correct it!"
NUMBER = "Requested page number does not exist!"


def post(app, path, **asked):
    return call(app, "POST", path, json=asked).json()


def test_vrag_rl_gets_image_files_by_rank(app, bm25):
    (hits,) = bm25.search(["cat"], top_k=10)
    files = [f"{FOLDER}/{hit.ref.doc_id}_{hit.ref.page}.jpg" for hit in hits]
    found = call(app, "GET", "/search", params={"queries": ["cat", "nothing"]}).json()
    assert found == [[{"idx": rank, "image_file": file} for rank, file in enumerate(files)], []]


@pytest.mark.parametrize("queries", ["cat", ["cat"]])
def test_the_newer_server_gives_scores_rows_and_data(app, bm25, queries):
    (hits,) = bm25.search(["cat"], top_k=2)
    data = [{"image_file": f"{FOLDER}/{image_name(hit.ref)}"} for hit in hits]
    expected = {"score": [hit.score for hit in hits], "indice": [0, 1], "data": data}
    assert post(app, "/search", queries=queries, top_k=2, search_corpus=None) == {"results": [expected]}


def test_names_of_images_are_split_at_the_last_underscore():
    for ref in (PageRef("a", 1), PageRef("b.plants_2", 12), PageRef("x y_", 3)):
        assert page_of(f"./img/deep/{image_name(ref)}") == ref
    for name in ("a.jpg", "a_0.jpg", "_1.jpg", "a_x.jpg", "a_1", "a_\u0661.jpg", "a_-1.jpg"):
        with pytest.raises(ValueError):
            page_of(name)


def test_alden_gets_pages_from_zero_as_jpeg(app, store, bm25):
    found = post(app, "/batch_search", query=["cat", "birds"], id=["animals", "numbers"], top_n=2)
    (cat,) = bm25.search(["cat"], doc_id="animals", top_k=2)
    numbers = [[page["id"] for page in pages] for pages in found]
    assert numbers == [[str(hit.ref.page - 1) for hit in cat], ["2"]]
    assert base64.b64decode(found[0][0]["contents"]) == store.page(cat[0].ref).image_bytes()
    # as many documents as queries
    reply = call(app, "POST", "/batch_search", json={"query": ["a", "b"], "id": ["animals"]})
    assert (reply.status_code, reply.json()["error"][:4]) == (422, "id: ")


@pytest.mark.parametrize("ocr", [False, True])
@pytest.mark.parametrize("score", [False, True])
def test_alden_gets_texts_and_scores_beside_images(app, store, bm25, ocr, score):
    """Images, their scores, texts, their scores; images alone are not in a list of parts."""
    found = post(app, "/batch_search", query=["cat"], id=["animals"], recall_ocr=ocr, return_score=score)
    (hits,) = bm25.search(["cat"], doc_id="animals", top_k=10)
    images, *others = found if ocr or score else [found]
    assert [len(pages) for pages in images] == [len(hits)]
    scores, texts = [[hit.score for hit in hits]], [[store.page(hit.ref).text() for hit in hits]]
    if score:
        assert others.pop(0) == scores
    if ocr:
        assert [[page["contents"] for page in pages] for pages in others.pop(0)] == texts
    assert others == ([scores] if ocr and score else [])


def test_alden_fetches_pages_by_number_in_either_form(app, store):
    page = store.page(PageRef("animals", 2))
    image = {"id": "image, 1", "contents": base64.b64encode(page.image_bytes()).decode()}
    text = {"id": "text, 1", "contents": page.text()}
    number, form = ({"id": "error", "contents": said} for said in (NUMBER, FORM))
    found = post(app, "/batch_fetch", query=["2-th", "9-th", "0-th", "second"], id=["animals"] * 4)
    assert found == [image, number, number, form]
    asked = {"query": ["text, 2", "image, 2", "2-th"], "id": ["animals"] * 3, "mm_fetch": True}
    assert post(app, "/batch_fetch", **asked) == [text, image, form]
    # names of documents lead nowhere else
    for name in ("../../../etc/passwd", "/etc/passwd", "animals/../animals", "\x00"):
        assert post(app, "/batch_fetch", query=["1-th"], id=[name]) == [number]
