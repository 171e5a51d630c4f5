"""Documents without text of their own, through `ingest`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from docagent_rl.documents import DocumentStore, RendererKind, RenderSettings
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.manifest import Manifest, dump_record
from docagent_rl.documents.objects import Kind
from docagent_rl.documents.ocr import OcrEngineKind, OcrMode, OcrSettings
from docagent_rl.documents.reading import TextReason, TextSource
from docagent_rl.documents.writing import write
from tests.documents.scans import TEXT, draw_text, write_layer, write_scan

OTHER = ("A second page of text", "with a few more words")
NEVER, ALWAYS = OcrSettings(OcrMode.NEVER), OcrSettings(OcrMode.ALWAYS)
TESSERACT = OcrSettings(engine=OcrEngineKind.TESSERACT)
needs_tesseract = pytest.mark.skipif(not shutil.which("tesseract"), reason="tesseract is not installed")


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


def _pages(store, doc_id="a"):
    document = DocumentStore(store).document(doc_id)
    return [document.page(number) for number in range(1, document.num_pages + 1)]


def _reasons(store, doc_id="a"):
    return [page.reading.reason.value for page in _pages(store, doc_id)]


def _rasters(store):
    return {path: path.stat().st_mtime_ns for path in (store / "objects").rglob("*.jpg")}


def test_a_scan_gets_its_text(inbox, store):
    write_scan(inbox / "a.pdf", [TEXT, (), OTHER])
    report = ingest(inbox, store, workers=1)
    assert (report.ocr_pages, report.textless_pages, report.pages) == (2, 1, 3)
    assert [page.text() for page in _pages(store)] == ["\n".join(TEXT), "", "\n".join(OTHER)]
    assert _reasons(store) == ["empty", "blank", "empty"]
    first = _pages(store)[0]
    assert [word.text for word in first.words()[1].words] == TEXT[1].split()
    assert all(
        0 <= low < high <= 1 for line in first.words() for low, high in (line.box[::2], line.box[1::2])
    )
    assert not audit_store(store).damages


@pytest.mark.slow
def test_a_folder_of_page_images_gets_its_text(inbox, store):
    (inbox / "deck").mkdir()
    for number, (lines, suffix) in enumerate(((TEXT, "png"), (OTHER, "jpg")), start=1):
        draw_text(lines).save(inbox / "deck" / f"{number}.{suffix}")
    assert ingest(inbox, store, workers=1).ocr_pages == 2
    assert [page.text() for page in _pages(store, "deck")] == ["\n".join(TEXT), "\n".join(OTHER)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "reason"),
    [({"private": True}, TextReason.GARBLED), ({"shift": 3}, TextReason.UNLIKELY)],
)
def test_a_broken_map_of_letters_is_replaced_by_what_is_shown(inbox, store, broken, reason):
    """The ToUnicode map of the font is wrong: copying from such a page gives nonsense."""
    lines = ["The committee met in spring", "and agreed that the bridge", "should be repaired soon and"]
    lines += [
        "thanked all who had worked",
        "on the survey of the pillars",
        "last summer in the county",
        "and the report of the mayor",
    ]
    write_layer(inbox / "a.pdf", lines, **broken)
    assert ingest(inbox, store, workers=1, ocr=NEVER).ingested == ["a"]
    assert "committee" not in _pages(store)[0].text()
    report = ingest(inbox, store, workers=1)
    assert (report.reread, report.ocr_pages) == (["a"], 1)
    assert _pages(store)[0].text() == "\n".join(lines)
    assert _pages(store)[0].reading.reason is reason


@pytest.mark.slow
def test_a_stamp_is_not_taken_for_the_text_of_a_scan(inbox, store):
    write_scan(inbox / "a.pdf", [(*TEXT, *OTHER)], stamp="Downloaded on 3 May")
    ingest(inbox, store, workers=1)
    assert "Revenue rose to 48 million" in _pages(store)[0].text()
    assert _reasons(store) == ["sparse"]


def test_sound_text_is_left_alone(inbox, store):
    write_layer(inbox / "a.pdf", TEXT)
    report = ingest(inbox, store, workers=1)
    assert (report.ocr_pages, report.textless_pages) == (0, 0)
    assert _pages(store)[0].text() == "\n".join(TEXT)
    assert _reasons(store) == ["sound"]
    assert not (store / "ocr").exists()


@pytest.mark.slow
def test_a_page_stored_small_is_read_large(inbox, store):
    """20 dpi are too few to read; the page is drawn again for OCR."""
    write_scan(inbox / "a.pdf", [TEXT])
    for renderer in (RendererKind.PDFIUM, RendererKind.PDF2IMAGE):
        if renderer is RendererKind.PDF2IMAGE and not shutil.which("pdftoppm"):
            continue
        settings = RenderSettings(renderer, dpi=20)
        ingest(inbox, store, workers=1, settings=settings)
        assert _pages(store)[0].text() == "\n".join(TEXT)
        assert _pages(store)[0].size == (112, 73)


@pytest.mark.slow
def test_turning_ocr_on_reads_only_what_has_no_text(inbox, store):
    write_scan(inbox / "a.pdf", [TEXT])
    write_layer(inbox / "b.pdf", OTHER)
    ingest(inbox, store, workers=1, ocr=NEVER)
    before, texts = _rasters(store), [page.text() for page in _pages(store)]
    assert texts == [""]
    report = ingest(inbox, store, workers=1, replace=False)
    assert (report.reread, report.skipped, report.ingested, report.kept) == (["a"], ["b"], [], [])
    assert _pages(store)[0].text() == "\n".join(TEXT)
    assert _rasters(store) == before  # nothing was rendered again
    assert ingest(inbox, store, workers=1, replace=False).skipped == ["a", "b"]


@pytest.mark.slow
def test_text_is_taken_away_or_changed_only_when_asked(inbox, store):
    write_scan(inbox / "a.pdf", [TEXT])
    ingest(inbox, store, workers=1)
    before = _rasters(store)
    report = ingest(inbox, store, workers=1, ocr=NEVER, replace=False)
    assert (report.kept, report.reread) == (["a"], [])
    assert _pages(store)[0].text() == "\n".join(TEXT)
    assert ingest(inbox, store, workers=1, ocr=NEVER).reread == ["a"]
    assert _pages(store)[0].text() == ""
    # what was read before is still known
    shutil.rmtree(inbox)
    write_scan(inbox / "a.pdf", [TEXT])
    assert ingest(inbox, store, workers=1).reread == ["a"]
    assert _rasters(store) == before


@pytest.mark.slow
@needs_tesseract
def test_another_engine_reads_its_own_pages_anew(inbox, store):
    write_scan(inbox / "a.pdf", [TEXT, ()])
    write_layer(inbox / "b.pdf", OTHER)
    ingest(inbox, store, workers=1)
    before = _rasters(store)
    report = ingest(inbox, store, workers=1, ocr=TESSERACT)
    assert report.skipped == ["b"]
    page = _pages(store)[0]
    assert page.text() == "\n".join(TEXT)
    assert page.reading.engine.startswith("tesseract")
    assert _rasters(store) == before
    ingest(inbox, store, workers=1, ocr=TESSERACT)
    assert not audit_store(store).damages


@pytest.mark.slow
def test_always_and_back(inbox, store):
    write_layer(inbox / "a.pdf", TEXT)
    ingest(inbox, store, workers=1, ocr=ALWAYS)
    assert _reasons(store) == ["asked"]
    assert ingest(inbox, store, workers=1, ocr=ALWAYS).skipped == ["a"]
    ingest(inbox, store, workers=1)
    assert (_reasons(store), _pages(store)[0].words()) == (["sound"], ())


@pytest.mark.slow
def test_stores_of_earlier_versions_are_read_and_gain_text(inbox, store):
    """They tell nothing of how a text was read."""
    write_scan(inbox / "a.pdf", [TEXT])
    write_layer(inbox / "b.pdf", OTHER)
    ingest(inbox, store, workers=1, ocr=NEVER)
    layout = StoreLayout(store)
    for path in layout.manifests():
        content = json.loads(path.read_text())
        for page in content["pages"]:
            del page["reading"], page["words"]
        del content["checksum"]
        path.write_text(json.dumps(content))
    assert _pages(store, "b")[0].reading is None
    report = ingest(inbox, store, workers=1, replace=False)
    assert (report.reread, report.skipped, report.kept) == (["a"], ["b"], [])
    assert _pages(store)[0].text() == "\n".join(TEXT)


@pytest.mark.slow
def test_a_damaged_page_is_made_anew_with_its_text(inbox, store):
    write_scan(inbox / "a.pdf", [TEXT])
    ingest(inbox, store, workers=1)
    page = _pages(store)[0]
    store.joinpath("objects", page.text_hash[:2], f"{page.text_hash}.txt.gz").unlink()
    assert ingest(inbox, store, workers=1).repaired == ["a"]
    assert _pages(store)[0].text() == "\n".join(TEXT)


@pytest.mark.slow
def test_lost_words_are_found_and_made_anew(inbox, store):
    write_scan(inbox / "a.pdf", [TEXT])
    ingest(inbox, store, workers=1)
    layout = StoreLayout(store)
    entry = layout.read_manifest(layout.manifest("a")).pages[0]
    layout.objects.path(entry.words, Kind.TEXT).write_bytes(b"damaged")
    assert [damage.users for damage in audit_store(store).damages] == [("a#1 (words)",)]
    assert ingest(inbox, store, workers=1).repaired == ["a"]
    assert not audit_store(store).damages


@pytest.mark.slow
def test_text_by_ocr_needs_no_source_in_the_manifest_to_be_read(inbox, store):
    """A manifest names the reading of every page and survives being written and read."""
    write_scan(inbox / "a.pdf", [TEXT])
    ingest(inbox, store, workers=1)
    layout = StoreLayout(store)
    manifest = layout.read_manifest(layout.manifest("a"))
    assert manifest.pages[0].reading.source is TextSource.OCR
    write(layout.manifest("a"), dump_record(manifest))
    assert isinstance(layout.read_manifest(layout.manifest("a")), Manifest)


def test_a_page_that_takes_too_long_to_read_is_reported(inbox, store):
    write_scan(inbox / "a.pdf", [TEXT])
    write_layer(inbox / "b.pdf", OTHER)
    report = ingest(inbox, store, workers=1, limits=IngestLimits(seconds=0.15))
    assert report.ingested == ["b"]
    assert report.failed[0].name == "a.pdf"
    assert "page 1 (OCR) took more than 0.15 s" in report.failed[0].reason


@pytest.mark.parametrize("memory", [0.1, 0.5])
def test_a_page_that_takes_too_much_memory_to_read_is_reported(inbox, store, memory):
    write_scan(inbox / "a.pdf", [TEXT])
    write_layer(inbox / "b.pdf", OTHER)
    report = ingest(inbox, store, workers=1, limits=IngestLimits(20, memory))
    assert report.ingested == ["b"]
    assert report.failed[0].reason == f"page 1 (OCR) takes more than {memory:g} GiB of memory"


_INGEST = """
from pathlib import Path
from docagent_rl.documents.ingestion import ingest
ingest(Path({inbox!r}), Path({store!r}), workers=1)
"""


@pytest.mark.slow
def test_an_interrupted_run_reads_no_page_twice(inbox, store):
    pages = [(*TEXT, f"Page number {number} of the scan") for number in range(6)]
    write_scan(inbox / "a.pdf", pages)
    code = _INGEST.format(inbox=str(inbox), store=str(store))
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.DEVNULL, start_new_session=True
    )
    while len(list(store.glob("ocr/*/*.json"))) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(30) != 0
    read = {path: path.stat().st_mtime_ns for path in store.glob("ocr/*/[!.]*.json")}
    assert 2 <= len(read) < 6
    assert "a" not in DocumentStore(store)
    report = ingest(inbox, store, workers=1)
    assert (report.ingested, report.ocr_pages) == (["a"], 6)
    assert [page.text().splitlines()[-1] for page in _pages(store)] == [lines[-1] for lines in pages]
    assert {path: path.stat().st_mtime_ns for path in read} == read
    assert not list(store.rglob(".*.tmp"))
