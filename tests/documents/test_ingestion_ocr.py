"""Documents without text of their own, through `ingest`."""

from __future__ import annotations

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.settings import IngestLimits
from tests.documents.here import ingest_here
from tests.documents.scans import TEXT, QuickEngine, draw_text, write_layer, write_scan

OTHER = ("A second page of text", "with a few more words")
NEVER = OcrSettings(OcrMode.NEVER)


@pytest.fixture
def ingested(inbox, store_path):
    return lambda **options: ingest_here(inbox, store_path, dpi=144, **options)


def _pages(store, doc_id="a"):
    document = DocumentStore(store).document(doc_id)
    return [document.page(number) for number in range(1, document.num_pages + 1)]


def _readings(store, doc_id="a"):
    return [(page.text(), page.reading.reason.value) for page in _pages(store, doc_id)]


def _rasters(store):
    return {path: path.stat().st_mtime_ns for path in (store / "objects").rglob("*.jpg")}


@pytest.mark.slow
def test_a_scan_gets_its_text(inbox, store_path, ingested):
    write_scan(inbox / "a.pdf", [TEXT, (), OTHER])
    (inbox / "deck").mkdir()
    draw_text(OTHER).save(inbox / "deck" / "1.png")
    report = ingested()
    assert (report.ocr_pages, report.textless_pages, report.pages) == (3, 1, 4)
    assert _readings(store_path) == [("\n".join(TEXT), "empty"), ("", "blank"), ("\n".join(OTHER), "empty")]
    assert _readings(store_path, "deck") == [("\n".join(OTHER), "empty")]
    words = _pages(store_path)[0].words()
    assert [word.text for word in words[1].words] == TEXT[1].split()
    sides = [side for line in words for side in (line.box[::2], line.box[1::2])]
    assert all(0 <= low < high <= 1 for low, high in sides)
    assert not audit_store(store_path).damages


LINES = [
    "The committee met in spring",
    "and agreed that the bridge",
    "should be repaired soon and",
    "thanked all who had worked",
    "on the survey of the pillars",
    "last summer in the county",
    "and the report of the mayor",
]


@pytest.mark.slow
def test_a_broken_map_of_letters_is_replaced_by_what_is_shown(inbox, store_path, ingested):
    """The ToUnicode map of the font is wrong: copying from such a page gives nonsense."""
    write_layer(inbox / "garbled.pdf", LINES, private=True)
    write_layer(inbox / "unlikely.pdf", LINES, shift=3)
    ingested(ocr=NEVER)
    assert not any("committee" in _pages(store_path, name)[0].text() for name in ("garbled", "unlikely"))
    report = ingested()
    assert (report.reread, report.ocr_pages) == (["garbled", "unlikely"], 2)
    for name in report.reread:
        assert _readings(store_path, name) == [("\n".join(LINES), name)]


@pytest.mark.usefixtures("quick_ocr")
def test_turning_ocr_on_reads_only_what_has_no_text(inbox, store_path, ingested):
    write_scan(inbox / "a.pdf", [TEXT])
    write_layer(inbox / "b.pdf", OTHER)
    ingested(ocr=NEVER)
    before = _rasters(store_path)
    assert not (store_path / "ocr").exists()
    assert _readings(store_path) == [("", "ocr_off")]
    report = ingested(replace=False)
    assert (report.reread, report.skipped, report.ingested, report.kept) == (["a"], ["b"], [], [])
    assert _readings(store_path) == [("\n".join(TEXT), "empty")]
    assert _rasters(store_path) == before  # nothing was rendered again
    assert ingested(replace=False).skipped == ["a", "b"]
    # it is taken away only when asked
    report = ingested(ocr=NEVER, replace=False)
    assert (report.kept, report.reread) == (["a"], [])
    assert _pages(store_path)[0].text() == "\n".join(TEXT)
    assert ingested(ocr=NEVER).reread == ["a"]
    assert _pages(store_path)[0].text() == ""
    # what was read before is still known
    assert ingested().reread == ["a"]
    assert _rasters(store_path) == before


@pytest.mark.slow
def test_a_page_that_takes_too_much_memory_to_read_is_reported(inbox, store_path):
    write_scan(inbox / "a.pdf", [TEXT])
    write_layer(inbox / "b.pdf", OTHER)
    report = ingest(inbox, store_path, workers=1, limits=IngestLimits(3600, 0.3))
    assert report.ingested == ["b"]
    assert [(bad.name, "0.3 GiB" in bad.reason) for bad in report.failed] == [("a.pdf", True)]


@pytest.mark.usefixtures("quick_ocr")
def test_an_interrupted_run_reads_no_page_twice(inbox, store_path, ingested, monkeypatch):
    write_scan(inbox / "a.pdf", [TEXT, OTHER, TEXT[:1], OTHER[:1]])
    read, whole = [], QuickEngine.read

    def interrupted(self, image):
        read.append(image)
        if len(read) == 3:
            raise KeyboardInterrupt
        return whole(self, image)

    monkeypatch.setattr(QuickEngine, "read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingested()
    assert "a" not in DocumentStore(store_path)
    report = ingested()
    assert (report.ingested, report.ocr_pages, len(read)) == (["a"], 4, 5)
