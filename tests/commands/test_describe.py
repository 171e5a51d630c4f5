"""Pages that show pictures are found by a model's descriptions of them."""

import hashlib
import os
import signal

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.commands.describe import describe_command
from docagent_rl.documents import PageRef, page_text
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upright import Scan
from docagent_rl.endpoints.usage import image_part_bytes
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.indexes import build_bm25
from docagent_rl.retrieval.vectors.encoding import encode_windows
from tests.chat_server import ChatServer, threaded
from tests.commands.conftest import called
from tests.documents.here import files_of, ingest_here
from tests.retrieval.vectors.encoders import HashingEncoder

LONG = ["The harbour is open and ferries leave every hour of the day."] * 9
PAGES = {
    1: [],
    2: LONG,
    3: [*LONG, "Figure 1. Passengers by year"],
    4: [*LONG, "Table 1. Ferries"],
    5: None,
}
"""A chart without text, text alone, a figure with its caption, a table, and a blank page."""
SAID = {
    1: "A bar chart of zeppelins by year.",
    3: "<think>A map?</think>A line that rises to 1,445.",
}


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(page_text, "read_scan", lambda picture: Scan(""))
    (tmp_path / "in").mkdir()
    canvas = Canvas(str(tmp_path / "in" / "port.pdf"), pagesize=(400, 300), invariant=True)
    for number, lines in PAGES.items():
        for row, line in enumerate(lines or ()):
            canvas.drawString(20, 250 - 15 * row, line)
        if lines is not None:
            canvas.rect(20, 20, 30 * number, 40, fill=1)
        canvas.showPage()
    canvas.save()
    ingest_here(tmp_path / "in", tmp_path / "store", dpi=36)
    return DocumentStore(tmp_path / "store")


def number_of(store, request) -> int:
    """Return the number of the page that a request shows."""
    (message,) = request["messages"]
    shown = hashlib.sha256(image_part_bytes(message["content"][1])).hexdigest()
    return next(ref.page for ref in store.pages() if store.page(ref).image_hash == shown)


@pytest.fixture
def server(store):
    """Run a model that describes pages 1 and 3."""
    with threaded(
        ChatServer(compute=lambda request: SAID.get(number_of(store, request), "None."))
    ) as running:
        yield running


def run(store, server, *more, status=0):
    (store.path.parent / "m.yaml").write_text(
        f"{{base_url: '{server.url}', model: m, backoff_s: 0}}"
    )
    options = (
        "--store",
        store.path,
        "--endpoint",
        store.path.parent / "m.yaml",
        "--concurrency",
        1,
    )
    return called(describe_command, *options, *more, status=status)


def asked(store, server) -> list[int]:
    return [number_of(store, request) for request in server.requests]


def test_a_page_is_found_by_a_word_that_its_description_alone_has(store, server):
    index, first = store.path.parent / "index", PageRef("port", 1)
    build_bm25(store, index, BM25Retriever.build(store).settings)
    assert "2 pages asked about: 2 replies, 2 of them descriptions" in run(store, server).output
    assert asked(store, server) == [1, 3]
    now = DocumentStore(store.path)
    with pytest.raises(UserError, match="index"):
        BM25Retriever.load(index).check(now)
    assert build_bm25(now, index, BM25Retriever.load(index).settings, force=True).blank == 1
    for words, page in (("zeppelins", 1), ("rises", 3)):
        (hits,) = BM25Retriever.load(index).search([words], top_k=5)
        assert [hit.ref.page for hit in hits] == [page]
    # vectors are made of it, and agents read what they read before
    ((vectors,),) = encode_windows(HashingEncoder(), now, [(first,)])
    assert (len(vectors), now.page(first).text()) == (7, "")
    assert audit_store(store.path).damages == []


def test_all_pages_but_blank_ones_are_asked_about_on_request_and_none_twice(store, server):
    run(store, server)
    assert (
        "4 pages asked about: 4 replies, 2 of them descriptions"
        in run(store, server, "--all").output
    )
    assert asked(store, server) == [1, 3, 2, 4]
    whole = files_of(store.path)
    assert "changed descriptions" not in run(store, server, "--all", "--doc", "port").output
    assert files_of(store.path) == whole
    with pytest.raises(UserError, match="'port'"):
        run(store, server, "--doc", "prot")


def test_what_was_interrupted_goes_on(store, server):
    before, reply = files_of(store.path), server.compute

    def interrupting(request):
        if number_of(store, request) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return reply(request)

    server.compute = interrupting
    assert "same command" in run(store, server, status=130).stderr
    assert files_of(store.path) == before
    server.compute = reply
    assert "2 of them descriptions" in run(store, server).output
    # the reply to what was asked when it was interrupted may have come in time
    assert asked(store, server) in ([1, 3], [1, 3, 3])


@pytest.mark.parametrize("ends", [401, 500, "--max-requests"])
def test_an_endpoint_that_fails_leaves_the_store_as_it_was(store, server, ends):
    before, reply = files_of(store.path), server.compute
    if ends == 500:
        server.compute = lambda request: 500
        assert "2 without a reply" in run(store, server, status=2).stderr
    elif ends == 401:
        server.compute = lambda request: reply(request) if number_of(store, request) == 1 else 401
        with pytest.raises(InfrastructureError, match="401"):
            run(store, server)
    else:
        with pytest.raises(UserError, match="1 of 2 pages"):
            run(store, server, ends, 1)
    assert files_of(store.path) == before
    server.compute = reply
    assert "2 of them descriptions" in run(store, server).output
    assert asked(store, server).count(1) == (4 if ends == 500 else 1)


def test_a_page_without_reply_takes_none_from_the_others(store, server):
    reply = server.compute
    server.compute = lambda request: 400 if number_of(store, request) == 1 else reply(request)
    assert "1 without a reply" in run(store, server, status=2).stderr
    assert "1,445" in DocumentStore(store.path).page(PageRef("port", 3)).searched_text()
    server.compute = reply
    assert "2 of them descriptions" in run(store, server).output
    assert asked(store, server) == [1, 3, 1]
