"""Texts that the user brings take the place of those that were read."""

import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef, RenderSettings
from docagent_rl.documents.contents import table_of_contents
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.manifest import TextSource
from docagent_rl.documents.own_texts import own_texts, replace_texts
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.bm25 import BM25Retriever
from tests.documents.conftest import write_pdf


def written(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md").replace("_json", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def reply(*pages):
    found = {"pages": [{"page_idx": index, "md": text} for index, text in pages]}
    return {"code": "success", "data": {"status": "success", "result": found}}


@pytest.mark.parametrize(
    "files",
    [
        {"d_json": json.dumps(reply((1, "b\r\n"), (0, " a")))},
        {"d_json": json.dumps(reply((1, "b"), (0, "a"))["data"]["result"])},
        {"d__1_md": "a", "d__2_md": "b\n"},
        {"d__report 2020 p. 001_md": "a", "d__report 2020 p. 2_md": "b"},
        {"d_md": "a\n\f\nb\n"},
        # the reply comes first
        {"d_json": json.dumps(reply((0, "a"), (1, "b"))), "d__1_md": "x", "d_md": "y"},
    ],
)
def test_texts_are_found_in_every_form(tmp_path, files):
    assert own_texts(written(tmp_path, **files), "d", 2) == {1: "a", 2: "b"}
    assert own_texts(tmp_path, "e", 2) == {}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"d_md": "a"}, r"d\.md: 1 pages, separated by form feeds, but 'd' has 2"),
        ({"d__3_md": "a"}, "page 3, but 'd' has the pages 1 to 2"),
        ({"d__1_md": "a", "d__01_md": "b"}, "is of page 1 too"),
        ({"d__x_md": "a"}, r"x\.md: the name of a page's text has to end with"),
        ({"d_json": "{"}, r"d\.json: not JSON"),
        ({"d_json": "[" * 100_000}, r"d\.json: not JSON"),
        ({"d_json": '{"code": "failed"}'}, r"d\.json: no reply of Doc2X"),
        ({"d_json": '{"pages": [{"md": "a"}]}'}, r"d\.json: no reply of Doc2X"),
        ({"d_json": json.dumps(reply((2, "a")))}, r"d\.json: page 3, but"),
    ],
)
def test_wrong_files_are_named(tmp_path, files, problem):
    with pytest.raises(UserError, match=problem):
        own_texts(written(tmp_path, **files), "d", 2)


def test_a_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / "d.md").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(UserError, match=r"d\.md: cannot be read as UTF-8"):
        own_texts(tmp_path, "d", 1)


@pytest.fixture
def store(tmp_path):
    write_pdf(tmp_path / "pdf" / "d.pdf", ["alpha", "beta", "gamma"])
    write_pdf(tmp_path / "pdf" / "e.pdf", ["delta"])
    settings = RenderSettings(dpi=20)
    ingest(tmp_path / "pdf", tmp_path / "store", workers=1, settings=settings)
    return tmp_path / "store"


def test_pages_get_the_texts_and_those_without_keep_theirs(store, tmp_path):
    before = DocumentStore(store).manifest("d")
    folder = written(tmp_path / "own", d__1_md="# One\n\n| x | walrus |", d__3_md=" \n")
    found = replace_texts(store, folder, ["d", "e"])
    assert (found.documents, found.pages, found.changed, found.without) == (1, 2, 1, ("e",))
    documents = DocumentStore(store)
    texts = [documents.page(PageRef("d", number)).text() for number in (1, 2, 3)]
    assert texts == ["# One\n\n| x | walrus |", "beta", ""]
    after = documents.manifest("d")
    assert [page.image for page in after.pages] == [page.image for page in before.pages]
    sources = [page.reading.source for page in after.pages]
    assert sources == [TextSource.OWN, TextSource.LAYER, TextSource.OWN]
    # searches and headings use them
    (hits,) = BM25Retriever.build(documents).search(["walrus"], top_k=3)
    assert [hit.ref for hit in hits] == [PageRef("d", 1)]
    assert "One" in str(table_of_contents((), dict(enumerate(texts, start=1))))
    assert replace_texts(store, folder, ["d", "e"]).changed == 0


def test_a_wrong_file_changes_nothing(store, tmp_path):
    folder = written(tmp_path / "own", d__1_md="x", e_md="a\fb")
    with pytest.raises(UserError, match=r"e\.md: 2 pages"):
        replace_texts(store, folder, ["d", "e"])
    assert DocumentStore(store).page(PageRef("d", 1)).text() == "alpha"


def test_an_ingest_keeps_the_texts_unless_it_replaces_the_document(store, tmp_path):
    replace_texts(store, written(tmp_path / "own", d__1_md="mine"), ["d"])
    settings = RenderSettings(dpi=20)
    for replaced, text in ((False, "mine"), (True, "alpha")):
        dpi = RenderSettings(dpi=30) if replaced else settings
        ingest(tmp_path / "pdf", store, workers=1, settings=dpi, replace=replaced)
        assert DocumentStore(store).page(PageRef("d", 1)).text() == text
