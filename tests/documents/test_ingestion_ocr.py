"""Documents without text of their own, through `ingest`."""

from __future__ import annotations

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.settings import OcrMode
from tests.documents.here import ingest_here
from tests.documents.scans import TEXT, draw_text, write_layer, write_scan

OTHER = ("A second page of text", "with a few more words")
LINES = ["The committee met in spring", "and agreed that the bridge", "should be repaired soon and"]


@pytest.fixture
def ingested(inbox, store_path):
    return lambda **options: ingest_here(inbox, store_path, dpi=144, **options)


def _readings(store, doc_id="a"):
    document = DocumentStore(store).document(doc_id)
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    return [(page.text(), page.reading.reason.value) for page in pages]


@pytest.mark.slow
def test_scans_and_broken_maps_of_letters_get_their_text(inbox, store_path, ingested):
    """Copying from a page whose ToUnicode map is wrong gives nonsense."""
    write_scan(inbox / "a.pdf", [TEXT, (), OTHER])
    write_layer(inbox / "garbled.pdf", LINES, private=True)
    (inbox / "deck").mkdir()
    draw_text(OTHER).save(inbox / "deck" / "1.png")
    report = ingested()
    assert (report.ocr_pages, report.textless_pages, report.pages) == (4, 1, 5)
    assert _readings(store_path) == [("\n".join(TEXT), "empty"), ("", "blank"), ("\n".join(OTHER), "empty")]
    assert _readings(store_path, "deck") == [("\n".join(OTHER), "empty")]
    assert _readings(store_path, "garbled") == [("\n".join(LINES), "garbled")]
    assert not audit_store(store_path).damages


@pytest.mark.usefixtures("quick_ocr")
def test_another_choice_of_pages_stores_documents_anew_when_asked(inbox, store_path, ingested):
    write_scan(inbox / "a.pdf", [TEXT])
    ingested(ocr=OcrMode.NEVER)
    assert _readings(store_path) == [("", "ocr_off")]
    assert ingested(replace=False).kept == ["a"]
    assert ingested().replaced == ["a"]
    assert _readings(store_path) == [("\n".join(TEXT), "empty")]
    assert ingested(replace=False).skipped == ["a"]
