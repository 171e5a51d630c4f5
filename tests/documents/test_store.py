from __future__ import annotations

import hashlib
import io
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from docagent_rl.documents import DocumentStore, OutlineEntry, PageContent, PageRef, RenderSettings, ingest
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.errors import UserError


@pytest.fixture
def store(inbox, tmp_path, write_pdf, write_image) -> DocumentStore:
    write_pdf(inbox / "report.2023.pdf", ["alpha", "", "gamma"], outline=[("Start", 0, 1), ("More", 1, 3)])
    write_image(inbox / "deck" / "1.jpg", "red")
    write_image(inbox / "deck" / "2.jpg", "blue", size=(30, 20))
    ingest(inbox, tmp_path / "store", settings=RenderSettings(dpi=72), workers=1)
    return DocumentStore(tmp_path / "store")


def test_listing(store):
    assert store.doc_ids() == ["deck", "report.2023"]
    assert len(store) == 2
    assert "deck" in store
    assert "report.2023.pdf" not in store
    assert 3 not in store
    expected = [("deck", 1), ("deck", 2), *(("report.2023", n) for n in (1, 2, 3))]
    assert list(store.pages()) == [PageRef(doc_id, n) for doc_id, n in expected]


def test_a_document_of_a_pdf(store, inbox):
    document = store.document("report.2023")
    assert (document.doc_id, document.num_pages) == ("report.2023", 3)
    assert document.outline == [OutlineEntry("Start", 1, 1), OutlineEntry("More", 2, 3)]
    assert document.source.name == "report.2023.pdf"
    assert document.source.sha256 == hashlib.sha256((inbox / "report.2023.pdf").read_bytes()).hexdigest()
    page = document.page(3)
    assert page.ref == PageRef("report.2023", 3)
    assert page.size == page.image().size == (200, 100)
    assert page.image().mode == "RGB"
    assert page.text() == "gamma"
    assert page.text_hash == hashlib.sha256(b"gamma").hexdigest()
    assert (document.page(2).text(), document.page(2).text_hash) == ("", None)


def test_a_document_of_images(store, inbox):
    document = store.document("deck")
    assert document.outline == []
    page = document.page(2)
    assert page.image_bytes() == (inbox / "deck" / "2.jpg").read_bytes()
    assert page.image_hash == hashlib.sha256(page.image_bytes()).hexdigest()
    assert page.text() == ""
    assert page.size == (30, 20)


def test_an_unknown_document_is_named_with_those_like_it(store):
    with pytest.raises(UserError, match=r"'report\.2024'.*store.*'report\.2023'"):
        store.document("report.2024")
    with pytest.raises(UserError, match=r"'../../x'.*holds 2 documents"):
        store.document("../../x")


@pytest.mark.parametrize("number", [0, 4, -1, True, 1.0, "1"])
def test_an_unknown_page_is_named_with_the_range(store, number):
    with pytest.raises(UserError, match=r"'report\.2023'.*1 to 3") as caught:
        store.document("report.2023").page(number)
    assert repr(number) in str(caught.value)


def test_a_folder_that_is_no_store_is_refused(tmp_path):
    with pytest.raises(UserError, match="docagent-rl ingest"):
        DocumentStore(tmp_path)


def test_drawing_on_a_page_does_not_change_it(store):
    page = store.page(PageRef("deck", 1))
    before = np.asarray(page.image())
    page.image().paste("black", (0, 0, 60, 40))
    assert (np.asarray(page.image()) == before).all()


def test_rasters_are_decoded_once(store, monkeypatch):
    calls = []
    original = Image.open
    monkeypatch.setattr(Image, "open", lambda *args: calls.append(1) or original(*args))
    page = store.page(PageRef("deck", 1))
    for _ in range(3):
        page.image()
    assert len(calls) == 1


@pytest.mark.parametrize("size", [0, 1])
def test_any_cache_size_serves(store, size):
    small = DocumentStore(store.path, image_cache=size)
    assert [small.page(ref).image().size for ref in store.pages()] == [
        p.size for p in map(store.page, store.pages())
    ]


def test_stores_documents_and_pages_are_pickled_by_reference(store):
    page = store.page(PageRef("report.2023", 3))
    data = pickle.dumps((store, store.document("deck"), page))
    assert len(data) < 1000
    again, document, same_page = pickle.loads(data)
    assert again.doc_ids() == store.doc_ids()
    assert document.num_pages == 2
    assert (same_page.text(), same_page.image_hash) == ("gamma", page.image_hash)


def test_a_relative_path_survives_a_change_of_folder(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = DocumentStore("store")
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(relative)).doc_ids() == store.doc_ids()


def test_many_processes_and_threads_read_the_same(store):
    refs = list(store.pages()) * 4
    expected = [hashlib.sha256(store.page(ref).image().tobytes()).hexdigest() for ref in refs]
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(lambda ref: store.page(ref).image(), refs))
    assert [hashlib.sha256(image.tobytes()).hexdigest() for image in images] == expected
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        hashes = list(
            pool.map(DocumentStore.decode, [store] * len(refs), [store.page(r).image_hash for r in refs])
        )
    assert [hashlib.sha256(image.tobytes()).hexdigest() for image in hashes] == expected


def test_fingerprints_follow_what_they_are_of(store, inbox):
    text, image = store.fingerprint(PageContent.TEXT), store.fingerprint(PageContent.IMAGE)
    assert DocumentStore(store.path).fingerprint(PageContent.TEXT) == text
    ingest(inbox, store.path, settings=RenderSettings(dpi=36), workers=1)
    again = DocumentStore(store.path)
    assert again.fingerprint(PageContent.TEXT) == text
    assert again.fingerprint(PageContent.IMAGE) != image


def test_damage_is_named(store):
    page = store.page(PageRef("deck", 1))
    path = store.path / "objects" / page.image_hash[:2] / f"{page.image_hash}.jpg"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(UserError, match=page.image_hash):
        page.image()
    path.unlink()
    with pytest.raises(UserError, match="ingest the document again"):
        page.image()
    manifest = StoreLayout(store.path).manifest("deck")
    manifest.write_text(manifest.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    with pytest.raises(UserError, match="schema_version"):
        DocumentStore(store.path).document("deck")


def test_a_manifest_cannot_lead_out_of_the_store(store):
    manifest = StoreLayout(store.path).manifest("deck")
    digest = store.page(PageRef("deck", 1)).image_hash
    manifest.write_text(manifest.read_text().replace(digest, "../../../../etc/passwd"))
    with pytest.raises(UserError, match=r"pages\.0\.image"):
        DocumentStore(store.path).document("deck")


def test_the_stored_file_is_a_jpeg(store):
    assert Image.open(io.BytesIO(store.page(PageRef("report.2023", 1)).image_bytes())).format == "JPEG"
