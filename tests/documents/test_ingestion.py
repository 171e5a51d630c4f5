import os
from concurrent.futures import ThreadPoolExecutor

import pypdfium2
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import RenderSettings, ingest_run
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.chunks import PAGES_PER_CHUNK
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.objects import ObjectKind
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from tests.documents.here import ingest_here, interrupted_after
from tests.documents.scans import TEXT, draw_text, write_layer, write_scan

OTHER = ("A second page of text", "with a few more words")
LINES = ["The committee met in spring", "and agreed that the bridge", "should be repaired soon and"]


def _objects(store):
    return sorted(path for path in (store / "objects").rglob("*") if path.is_file())


def _texts(store):
    store = DocumentStore(store)
    return [store.page(ref).text() for ref in store.pages()]


def test_good_documents_are_stored_and_bad_ones_reported(inbox, tmp_path, write_pdf, write_image):
    whole = write_pdf(inbox / "good.pdf", [f"page {n}" for n in range(9)]).read_bytes()
    (inbox / "cut.pdf").write_bytes(whole[: len(whole) // 2])
    (inbox / "empty.pdf").touch()
    (inbox / "garbage.pdf").write_bytes(os.urandom(5000))
    write_pdf(inbox / "locked.pdf", ["x"], user_password="secret")
    write_image(inbox / "deck" / "1.png")
    (inbox / "broken").mkdir()
    (inbox / "broken" / "1.png").write_bytes(b"no image")
    report = ingest(inbox, tmp_path / "far", settings=RenderSettings(dpi=20), workers=1)
    assert report == ingest_here(inbox, tmp_path / "here")
    assert (report.ingested, report.pages) == (["deck", "good"], 10)
    names = [failure.name for failure in report.failed]
    assert names == ["broken", "cut.pdf", "empty.pdf", "garbage.pdf", "locked.pdf"]
    far, here = ([path.name for path in _objects(tmp_path / name)] for name in ("far", "here"))
    assert far == here
    assert _texts(tmp_path / "far") == ["", *(f"page {n}" for n in range(9))]


def test_a_page_that_cannot_be_read_fails_its_document(inbox, ingested, write_pdf):
    """The file is complete, but the object of a page is not a page."""
    path = write_pdf(inbox / "a.pdf", ["one", "two"])
    head, _, tail = path.read_bytes().rpartition(b"/Type /Page\n")
    path.write_bytes(head + b"/Type /Fish\n" + tail)
    with pypdfium2.PdfDocument(path) as pdf:
        assert len(pdf) == 2
    (failure,) = ingested().failed
    assert "page 2" in failure.reason


def test_a_page_that_could_not_be_shown_is_refused_when_stored(
    inbox, ingested, write_pdf, write_image
):
    """Image processors refuse sides that differ by more than 200 times."""
    write_image(inbox / "good" / "1.png", size=(400, 2))
    write_image(inbox / "deck" / "1.png", size=(804, 4))
    write_pdf(inbox / "a.pdf", ["x"], size=(804, 4))
    report = ingested(dpi=72)
    assert report.ingested == ["good"]
    assert ["804x4" in failure.reason for failure in report.failed] == [True] * 2


def test_unchanged_documents_are_skipped_and_others_replaced(
    inbox, store_path, ingested, write_pdf, write_image
):
    write_pdf(inbox / "a.pdf", ["one"])
    write_image(inbox / "deck" / "1.png", "red")
    assert ingested().ingested == ["a", "deck"]
    before = {path: path.stat().st_mtime_ns for path in _objects(store_path)}
    os.utime(inbox / "a.pdf", (0, 0))  # a new date is no new content
    report = ingested()
    assert (report.ingested, report.skipped, report.pages) == ([], ["a", "deck"], 0)
    assert {path: path.stat().st_mtime_ns for path in _objects(store_path)} == before
    write_pdf(inbox / "a.pdf", ["two", "three"])
    report = ingested()
    assert (report.ingested, report.replaced, report.skipped) == (["a"], ["a"], ["deck"])
    assert _texts(store_path) == ["two", "three", ""]
    # dpi is of no account for page images, and their order is content
    report = ingested(dpi=40)
    assert (report.replaced, report.skipped) == (["a"], ["deck"])
    write_image(inbox / "deck" / "2.png", "blue")
    ingested(dpi=40)
    for old, new in (("1", "3"), ("2", "1"), ("3", "2")):
        (inbox / "deck" / f"{old}.png").rename(inbox / "deck" / f"{new}.png")
    assert ingested(dpi=40).replaced == ["deck"]
    assert DocumentStore(store_path).document("deck").page(1).image().getpixel((5, 5))[2] > 200


def test_equal_pages_are_stored_once_and_made_again_when_lost(
    inbox, store_path, ingested, write_pdf
):
    write_pdf(inbox / "a.pdf", ["same"] * 5)
    write_pdf(inbox / "b.pdf", ["same"] * 3)
    ingested()
    before = _objects(store_path)
    assert len(before) == 2  # one raster, one text
    for path in before:
        path.unlink()
    assert ingested().ingested == ["a", "b"]
    assert _objects(store_path) == before


def test_an_interrupted_ingest_goes_on_where_it_stopped(inbox, store_path, ingested, write_pdf):
    texts = [f"page {n}" for n in range(1, 3 * PAGES_PER_CHUNK)]
    write_pdf(inbox / "long.pdf", texts)
    with interrupted_after(2) as done:
        with pytest.raises(KeyboardInterrupt):
            ingested()
        assert DocumentStore(store_path).doc_ids() == []
        report = ingested()
    assert (report.ingested, report.resumed_pages) == (["long"], 2 * PAGES_PER_CHUNK)
    assert done == [1 + PAGES_PER_CHUNK * n for n in range(3)]
    assert _texts(store_path) == texts
    assert list((store_path / "partial").iterdir()) == []


def test_partial_pages_of_other_content_are_not_taken(
    inbox, store_path, ingested, write_pdf, monkeypatch
):
    old, new = ([f"{word} {n}" for n in range(PAGES_PER_CHUNK + 1)] for word in ("old", "new"))

    def interrupted(*_):
        raise KeyboardInterrupt

    write_pdf(inbox / "a.pdf", old)
    with monkeypatch.context() as patch:
        patch.setattr(ingest_run.IngestRun, "_commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ingested()
    write_pdf(inbox / "a.pdf", new)
    assert ingested().resumed_pages == 0
    assert _texts(store_path) == new
    # all ranges were stored when the first run was stopped: only the manifest was missing
    write_pdf(inbox / "a.pdf", old)
    report = ingested()
    assert (report.ingested, report.resumed_pages) == (["a"], PAGES_PER_CHUNK + 1)
    assert _texts(store_path) == old


def test_a_file_that_changes_meanwhile_is_reported(inbox, ingested, write_pdf, monkeypatch):
    path, probe = write_pdf(inbox / "a.pdf", ["one"]), ingest_run.IngestRun.probe

    def probe_then_change(self, documents):
        jobs = probe(self, documents)
        write_pdf(path, ["one", "two"])
        return jobs

    monkeypatch.setattr(ingest_run.IngestRun, "probe", probe_then_change)
    assert [failure.name for failure in ingested().failed] == ["a.pdf"]


def test_ids_never_become_paths(inbox, store_path, ingested, write_pdf):
    ids = ["long" * 60, "x\\..\\..\\x#1"]
    for doc_id in ids:
        write_pdf(inbox / f"{doc_id}.pdf", [doc_id[:4]])
    assert ingested().ingested == ids
    assert all(len(path.stem) == 64 for path in StoreLayout(store_path).manifests())
    assert _texts(store_path) == [doc_id[:4] for doc_id in ids]


def test_the_store_must_be_a_folder_of_its_own(inbox, write_pdf):
    write_pdf(inbox / "a.pdf", ["x"])
    for wrong in (inbox, inbox / "a.pdf"):
        with pytest.raises(UserError, match=wrong.name):
            ingest_here(inbox, wrong)
    with pytest.raises(UserError, match="workers=0"):
        ingest_here(inbox, inbox / "store", workers=0)
    # a store inside the ingested folder is not ingested
    ingest_here(inbox, inbox / "store")
    assert ingest_here(inbox, inbox / "store").skipped == ["a"]
    assert DocumentStore(inbox / "store").doc_ids() == ["a"]


@pytest.mark.parametrize("kind", ObjectKind)
def test_a_document_with_damaged_pages_is_not_skipped(inbox, store_path, ingested, write_pdf, kind):
    write_pdf(inbox / "a.pdf", ["one", "two"])
    write_pdf(inbox / "b.pdf", ["other"])
    ingested()
    page = DocumentStore(store_path).document("a").page(2)
    digest = page.image_hash if kind is ObjectKind.IMAGE else page.text_hash
    path = StoreLayout(store_path).objects.path(digest, kind)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes(9))
    report = ingested(replace=False)
    assert (report.ingested, report.repaired, report.replaced, report.skipped) == (
        ["a"],
        ["a"],
        [],
        ["b"],
    )
    assert path.read_bytes() == whole
    assert ingested().skipped == ["a", "b"]


def test_ingests_of_one_store_take_turns(inbox, store_path, ingested, write_pdf):
    """The process that waits finds everything done.

    Locks end with their processes, which tests/faults kills.
    """
    write_pdf(inbox / "a.pdf", ["x"])
    ingested()
    with ThreadPoolExecutor(1) as pool, StoreLayout(store_path).lock():
        waiting = pool.submit(ingested)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.3)
    assert waiting.result().skipped == ["a"]


def test_what_is_no_file_is_reported_and_not_waited_for(inbox, ingested, write_image):
    """Opening a named pipe would wait for a writer that never comes."""
    write_image(inbox / "good" / "1.png")
    write_image(inbox / "deck" / "1.png")
    os.mkfifo(inbox / "deck" / "2.png")
    os.mkfifo(inbox / "pipe.pdf")
    report = ingested()
    assert report.ingested == ["good"]
    assert [failure.name for failure in report.failed] == ["deck", "pipe.pdf"]


# -- documents without text of their own


def _readings(store, doc_id="a"):
    document = DocumentStore(store).document(doc_id)
    pages = [document.page(number) for number in range(1, document.num_pages + 1)]
    return [(page.text(), page.reading.reason.value) for page in pages]


@pytest.mark.slow
def test_scans_and_broken_maps_of_letters_get_their_text(inbox, store_path, ingested):
    """Text copied from a page whose ToUnicode map is wrong is nonsense."""
    write_scan(inbox / "a.pdf", [TEXT, (), OTHER])
    write_layer(inbox / "garbled.pdf", LINES, private=True)
    (inbox / "deck").mkdir()
    draw_text(OTHER).save(inbox / "deck" / "1.png")
    report = ingested(dpi=144)
    assert (report.ocr_pages, report.textless_pages, report.pages) == (4, 1, 5)
    assert _readings(store_path) == [
        ("\n".join(TEXT), "empty"),
        ("", "blank"),
        ("\n".join(OTHER), "empty"),
    ]
    assert _readings(store_path, "deck") == [("\n".join(OTHER), "empty")]
    assert _readings(store_path, "garbled") == [("\n".join(LINES), "garbled")]
    assert not audit_store(store_path).damages


@pytest.mark.usefixtures("quick_ocr")
def test_another_choice_of_pages_stores_documents_anew_when_asked(inbox, store_path, ingested):
    write_scan(inbox / "a.pdf", [TEXT])
    ingested(dpi=144, ocr=OcrMode.NEVER)
    assert _readings(store_path) == [("", "ocr_off")]
    assert ingested(dpi=144, replace=False).kept == ["a"]
    assert ingested(dpi=144).replaced == ["a"]
    assert _readings(store_path) == [("\n".join(TEXT), "empty")]
    assert ingested(dpi=144, replace=False).skipped == ["a"]
