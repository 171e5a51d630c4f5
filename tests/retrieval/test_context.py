"""Titles and headings of passages, in indexes alone."""

from __future__ import annotations

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.documents.contents import Heading
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.context import indexed_texts, page_headings
from tests.documents.here import ingest_here

HEADINGS = [
    Heading(1, "Rivers", 1),
    Heading(2, "1.1 The north", 1),
    Heading(2, "The South", 3),
    Heading(1, "Lost", 3),
]
TEXTS = {
    1: "Rivers\nwords of the north\n1.1 The\nnorth",
    2: "more",
    3: "end. In the south\n1.2 The south\nlast",
}


def test_headings_go_on_over_pages_until_the_next():
    first, second, third = page_headings(HEADINGS, TEXTS)
    assert first == ["Rivers", "Rivers", "1.1 The north"]
    assert second == ["Rivers", "1.1 The north"]
    # one that the text does not hold begins where the one before it does
    assert third == ["Rivers", "1.1 The north", "Lost"]


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    """Three pages; a bookmark of the first covers the second, too; the third has no text."""
    folder = tmp_path_factory.mktemp("atlas")
    (folder / "inbox").mkdir()
    canvas = Canvas(str(folder / "inbox" / "x.pdf"), pagesize=(300, 300))
    canvas.setTitle("Atlas of waters")
    for text in ("Glaciers begin here", "it melts in June", ""):
        if text.startswith("Glaciers"):
            for level, name in enumerate(("Alps", "Glaciers", "Ice")):
                canvas.bookmarkPage(name)
                canvas.addOutlineEntry(name, name, level)
        canvas.drawString(20, 200, text)
        canvas.showPage()
    canvas.save()
    ingest_here(folder / "inbox", folder / "store", dpi=10)
    return DocumentStore(folder / "store")


def test_a_page_is_found_by_its_heading_and_title_and_its_text_stays(atlas):
    index = BM25Retriever.build(atlas)
    for query in ("glacier", "waters"):
        (hits,) = index.search([query], top_k=5)
        assert {hit.ref.page for hit in hits} == {1, 2}
    assert atlas.page(PageRef("x", 2)).text() == "it melts in June"
    titled = "Atlas of waters\nAlps\nGlaciers\nIce\nit melts in June"
    assert list(indexed_texts(atlas.document("x")))[1:] == [titled, ""]


def test_what_indexes_of_texts_are_made_of_is_the_title_and_headings_too(atlas, monkeypatch):
    document = atlas.document("x")
    before = {content: document.digests(content) for content in PageContent}
    monkeypatch.setattr(type(document), "title", "Another")
    assert document.digests(PageContent.TEXT) != before[PageContent.TEXT]
    assert document.digests(PageContent.IMAGE) == before[PageContent.IMAGE]
