from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pypdfium2
import pytest

from docagent_rl.documents import DocumentStore, RendererKind, RenderSettings, ingestion
from docagent_rl.documents.chunks import PAGES_PER_CHUNK, store_chunk
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.workers import WorkerPool
from docagent_rl.errors import UserError

FAST = RenderSettings(dpi=20)


def _objects(store):
    return sorted(path for path in (store / "objects").rglob("*") if path.is_file())


def test_good_documents_are_stored_and_bad_ones_reported(inbox, tmp_path, write_pdf, write_image):
    whole = write_pdf(inbox / "good.pdf", [f"page {n}" for n in range(20)]).read_bytes()
    (inbox / "cut.pdf").write_bytes(whole[: len(whole) // 2])
    (inbox / "empty.pdf").touch()
    (inbox / "garbage.pdf").write_bytes(os.urandom(5000))
    write_pdf(inbox / "locked.pdf", ["x"], user_password="secret")
    write_image(inbox / "deck" / "1.png")
    (inbox / "broken").mkdir()
    (inbox / "broken" / "1.png").write_bytes(b"no image")
    report = ingest(inbox, tmp_path / "store", settings=FAST, workers=2)
    assert report.ingested == ["deck", "good"]
    assert report.pages == 21
    reasons = {failure.name: failure.reason for failure in report.failed}
    assert list(reasons) == ["broken", "cut.pdf", "empty.pdf", "garbage.pdf", "locked.pdf"]
    assert "1.png is not a readable image" in reasons["broken"]
    assert "truncated" in reasons["cut.pdf"]
    assert "empty" in reasons["empty.pdf"]
    assert "not a PDF" in reasons["garbage.pdf"]
    assert "encrypted" in reasons["locked.pdf"]
    assert DocumentStore(tmp_path / "store").doc_ids() == ["deck", "good"]


def test_a_page_that_cannot_be_read_fails_its_document(inbox, tmp_path, write_pdf):
    """The file is whole, but the object of a page is not a page."""
    path = write_pdf(inbox / "a.pdf", ["one", "two"])
    data = path.read_bytes()
    assert data.count(b"/Type /Page\n") + data.count(b"/Type /Page ") == 2
    position = data.rindex(b"/Type /Page ") if b"/Type /Page " in data else data.rindex(b"/Type /Page\n")
    path.write_bytes(data[:position] + data[position:].replace(b"/Type /Page", b"/Type /Fish", 1))
    with pypdfium2.PdfDocument(path) as pdf:
        assert len(pdf) == 2
    report = ingest(inbox, tmp_path / "store", settings=FAST, workers=1)
    assert report.ingested == []
    assert "page 2" in report.failed[0].reason


@pytest.mark.parametrize("name", ["a.pdf", "deck/1.png"])
def test_a_page_that_could_not_be_shown_is_refused_when_stored(inbox, tmp_path, write_pdf, write_image, name):
    """No image processor takes sides that differ by more than 200 times."""
    write_image(inbox / "good" / "1.png", size=(400, 2))
    if name == "a.pdf":
        write_pdf(inbox / name, ["x"], size=(804, 4))
    else:
        write_image(inbox / name, size=(804, 4))
    report = ingest(inbox, tmp_path / "store", settings=RenderSettings(dpi=72), workers=1)
    assert report.ingested == ["good"]
    assert "804x4 pixels differ by more than 200 times" in report.failed[0].reason


def test_strict_stops_at_the_first_bad_document(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "good.pdf", ["x"])
    (inbox / "bad.pdf").touch()
    with pytest.raises(UserError, match=r"bad\.pdf: empty"):
        ingest(inbox, tmp_path / "store", settings=FAST, workers=1, strict=True)


def test_unchanged_documents_are_skipped(inbox, tmp_path, write_pdf, write_image):
    store = tmp_path / "store"
    write_pdf(inbox / "a.pdf", ["one"])
    write_image(inbox / "deck" / "1.png", "red")
    assert ingest(inbox, store, settings=FAST, workers=1).ingested == ["a", "deck"]
    before = [(path, path.stat().st_mtime_ns) for path in _objects(store)]
    os.utime(inbox / "a.pdf", (0, 0))  # a new date is no new content
    report = ingest(inbox, store, settings=FAST, workers=1)
    assert (report.ingested, report.skipped, report.pages) == ([], ["a", "deck"], 0)
    assert [(path, path.stat().st_mtime_ns) for path in _objects(store)] == before


def test_new_content_or_settings_replace_a_document(inbox, tmp_path, write_pdf, write_image):
    store = tmp_path / "store"
    write_pdf(inbox / "a.pdf", ["one"])
    write_image(inbox / "deck" / "1.png", "red")
    ingest(inbox, store, settings=FAST, workers=1)
    write_pdf(inbox / "a.pdf", ["two", "three"])
    report = ingest(inbox, store, settings=FAST, workers=1)
    assert (report.ingested, report.replaced, report.skipped) == (["a"], ["a"], ["deck"])
    assert DocumentStore(store).document("a").page(2).text() == "three"
    # dpi is of no account for page images
    report = ingest(inbox, store, settings=RenderSettings(dpi=40), workers=1)
    assert (report.replaced, report.skipped) == (["a"], ["deck"])


def test_swapped_page_images_are_new_content(inbox, tmp_path, write_image):
    write_image(inbox / "deck" / "1.png", "red")
    write_image(inbox / "deck" / "2.png", "blue")
    ingest(inbox, tmp_path / "store", workers=1)
    (inbox / "deck" / "1.png").rename(inbox / "deck" / "3.png")
    assert ingest(inbox, tmp_path / "store", workers=1).replaced == ["deck"]
    assert DocumentStore(tmp_path / "store").document("deck").page(1).image().getpixel((5, 5))[2] > 200


def test_a_lost_object_is_made_again(inbox, tmp_path, write_pdf):
    store = tmp_path / "store"
    write_pdf(inbox / "a.pdf", ["one"])
    ingest(inbox, store, settings=FAST, workers=1)
    before = _objects(store)
    for path in before:
        path.unlink()
    assert ingest(inbox, store, settings=FAST, workers=1).ingested == ["a"]
    assert _objects(store) == before


def test_equal_pages_are_stored_once(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "a.pdf", ["same"] * 5)
    write_pdf(inbox / "b.pdf", ["same"] * 3)
    ingest(inbox, tmp_path / "store", settings=FAST, workers=1)
    assert len(_objects(tmp_path / "store")) == 3  # one raster, one text, its print


def test_workers_do_not_change_the_result(inbox, tmp_path, write_pdf):
    for name in ("a", "b"):
        write_pdf(inbox / f"{name}.pdf", [f"{name} {n}" for n in range(2 * PAGES_PER_CHUNK + 3)])
    stores = []
    for workers in (1, 2):
        path = tmp_path / f"store{workers}"
        ingest(inbox, path, settings=FAST, workers=workers)
        store = DocumentStore(path)
        stores.append([(ref, store.page(ref).image_hash, store.page(ref).text()) for ref in store.pages()])
    assert stores[0] == stores[1]
    assert stores[0][PAGES_PER_CHUNK + 1][2] == f"a {PAGES_PER_CHUNK + 1}"


def test_an_interrupted_ingest_goes_on_where_it_stopped(inbox, tmp_path, write_pdf, monkeypatch):
    store = tmp_path / "store"
    write_pdf(inbox / "long.pdf", [f"page {n}" for n in range(1, 5 * PAGES_PER_CHUNK)])
    original = WorkerPool.run
    done = []

    def interrupted(self, function, tasks):
        for outcome in original(self, function, tasks):
            if function is store_chunk:
                done.append(outcome.task.first)
            yield outcome
            if function is store_chunk and len(done) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(WorkerPool, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest(inbox, store, settings=FAST, workers=1)
    assert DocumentStore(store).doc_ids() == []
    report = ingest(inbox, store, settings=FAST, workers=1)
    assert (report.ingested, report.resumed_pages) == (["long"], 2 * PAGES_PER_CHUNK)
    assert done == [1 + PAGES_PER_CHUNK * n for n in range(5)]
    texts = [DocumentStore(store).page(ref).text() for ref in DocumentStore(store).pages()]
    assert texts == [f"page {n}" for n in range(1, 5 * PAGES_PER_CHUNK)]
    assert list((store / "partial").iterdir()) == []


def test_partial_pages_of_other_settings_or_content_are_not_taken(inbox, tmp_path, write_pdf, monkeypatch):
    store = tmp_path / "store"
    write_pdf(inbox / "a.pdf", [f"old {n}" for n in range(PAGES_PER_CHUNK + 1)])
    with monkeypatch.context() as patch:
        patch.setattr(
            ingestion._Ingest, "_commit", lambda self, job: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        with pytest.raises(KeyboardInterrupt):
            ingest(inbox, store, settings=FAST, workers=1)
    write_pdf(inbox / "a.pdf", [f"new {n}" for n in range(PAGES_PER_CHUNK + 1)])
    assert ingest(inbox, store, settings=FAST, workers=1).resumed_pages == 0
    assert DocumentStore(store).document("a").page(1).text() == "new 0"
    # all ranges were stored when the first run was stopped: only the manifest was missing
    write_pdf(inbox / "a.pdf", [f"old {n}" for n in range(PAGES_PER_CHUNK + 1)])
    report = ingest(inbox, store, settings=FAST, workers=1)
    assert (report.ingested, report.resumed_pages) == (["a"], PAGES_PER_CHUNK + 1)
    assert DocumentStore(store).document("a").page(1).text() == "old 0"


def test_a_file_that_changes_meanwhile_is_reported(inbox, tmp_path, write_pdf, monkeypatch):
    path = write_pdf(inbox / "a.pdf", ["one"])
    original = ingestion._Ingest.probe

    def probe_then_change(self, documents):
        jobs = original(self, documents)
        write_pdf(path, ["one", "two"])
        return jobs

    monkeypatch.setattr(ingestion._Ingest, "probe", probe_then_change)
    (failure,) = ingest(inbox, tmp_path / "store", settings=FAST, workers=1).failed
    assert "changed while" in failure.reason


SCRIPT = """
import sys
from pathlib import Path
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
if __name__ == "__main__":
    ingest(Path(sys.argv[1]), Path(sys.argv[2]), settings=RenderSettings(dpi=20), workers=2)
"""


@pytest.mark.slow
def test_a_killed_ingest_of_a_thousand_pages_goes_on(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "long.pdf", [f"page number {n}" for n in range(1, 1001)])
    store, script = tmp_path / "store", tmp_path / "run.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), str(inbox), str(store)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while len(list(store.glob("partial/*/*.json"))) < 5 and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        # the workers hold the pipe open: this returns only when they have ended with their parent
        process.communicate(timeout=30)
    assert "long" not in DocumentStore(store)
    report = ingest(inbox, store, settings=FAST, workers=1)
    assert (report.ingested, report.pages) == (["long"], 1000)
    assert 4 * PAGES_PER_CHUNK <= report.resumed_pages < 1000
    document = DocumentStore(store).document("long")
    assert [document.page(n).text() for n in (1, 500, 1000)] == [f"page number {n}" for n in (1, 500, 1000)]


def test_ids_never_become_paths(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "x\\..\\..\\x#1.pdf", ["x"])
    write_pdf(inbox / ("long" * 60 + ".pdf"), ["x"])
    report = ingest(inbox, tmp_path / "store", settings=FAST, workers=1)
    assert report.ingested == sorted(["x\\..\\..\\x#1", "long" * 60])
    manifests = list(StoreLayout(tmp_path / "store").manifests())
    assert all(len(path.stem) == 64 for path in manifests)
    assert DocumentStore(tmp_path / "store").document("x\\..\\..\\x#1").page(1).text() == "x"


def test_the_store_must_be_a_folder_of_its_own(inbox, tmp_path, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    with pytest.raises(UserError, match="not empty and not a document store"):
        ingest(inbox, inbox, settings=FAST, workers=1)
    with pytest.raises(UserError, match="is a file"):
        ingest(inbox, inbox / "a.pdf", settings=FAST, workers=1)
    # a store inside the ingested folder is not ingested
    ingest(inbox, inbox / "store", settings=FAST, workers=1)
    assert ingest(inbox, inbox / "store", settings=FAST, workers=1).skipped == ["a"]
    assert DocumentStore(inbox / "store").doc_ids() == ["a"]
    assert tmp_path.joinpath("inbox", "store", "documents").is_dir()


def test_wrong_arguments_fail_before_any_work(inbox, tmp_path, write_pdf, monkeypatch):
    write_pdf(inbox / "a.pdf", ["x"])
    with pytest.raises(UserError, match="workers=0"):
        ingest(inbox, tmp_path / "store", workers=0)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="poppler"):
        ingest(inbox, tmp_path / "store", settings=RenderSettings(renderer=RendererKind.PDF2IMAGE))
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize("suffix", [".jpg", ".txt.gz"])
def test_a_document_with_damaged_pages_is_not_skipped(inbox, tmp_path, write_pdf, suffix):
    write_pdf(inbox / "a.pdf", ["one", "two"])
    write_pdf(inbox / "b.pdf", ["other"])
    store = tmp_path / "store"
    settings = RenderSettings(dpi=20)
    ingest(inbox, store, settings=settings, workers=1)
    page = DocumentStore(store).document("a").page(2)
    digest = page.image_hash if suffix == ".jpg" else page.text_hash
    path = store / "objects" / digest[:2] / f"{digest}{suffix}"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes(9))
    report = ingest(inbox, store, settings=settings, workers=1, replace=False)
    assert (report.ingested, report.repaired, report.replaced, report.skipped) == (["a"], ["a"], [], ["b"])
    assert path.read_bytes() == whole
    assert ingest(inbox, store, settings=settings, workers=1).skipped == ["a", "b"]
