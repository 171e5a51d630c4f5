from __future__ import annotations

import hashlib
import io
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from docagent_rl.documents import DocumentStore, OutlineEntry, PageContent, PageRef, RenderSettings
from docagent_rl.documents.ingestion import ingest
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
    monkeypatch.setattr(Image, "open", lambda *args, **options: calls.append(1) or original(*args, **options))
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


def test_damage_is_named(store, edit_record):
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
    edit_record(manifest, ('"schema_version": 1', '"schema_version": 9'))
    with pytest.raises(UserError, match="schema_version"):
        DocumentStore(store.path).document("deck")


def test_a_picture_of_another_page_is_never_shown(store):
    """On disk, under the name of the first page: a whole JPEG file, but of the second."""
    first, second = store.page(PageRef("deck", 1)), store.page(PageRef("deck", 2))
    path = store.objects.root / first.image_hash[:2] / f"{first.image_hash}.jpg"
    path.write_bytes(second.image_bytes())
    for read in (first.image, first.image_bytes):
        with pytest.raises(UserError, match=f"{path}.*something else"):
            read()


def test_a_text_of_another_page_is_never_read(store):
    first, third = (store.page(PageRef("report.2023", n)) for n in (1, 3))
    folder = store.objects.root
    path = folder / first.text_hash[:2] / f"{first.text_hash}.txt.gz"
    path.write_bytes((folder / third.text_hash[:2] / f"{third.text_hash}.txt.gz").read_bytes())
    with pytest.raises(UserError, match=f"{path}.*something else"):
        first.text()


def test_a_manifest_of_another_document_is_refused(store):
    layout = StoreLayout(store.path)
    layout.manifest("deck").write_bytes(layout.manifest("report.2023").read_bytes())
    with pytest.raises(UserError, match=r"another document, 'report\.2023'"):
        DocumentStore(store.path).document("deck")
    with pytest.raises(UserError, match=layout.manifest("deck").name):
        DocumentStore(store.path).doc_ids()


def test_manifests_without_checksums_are_read(store, edit_record):
    text = store.fingerprint(PageContent.TEXT)
    for doc_id in store.doc_ids():
        edit_record(StoreLayout(store.path).manifest(doc_id))
    old = DocumentStore(store.path)
    assert (old.doc_ids(), old.fingerprint(PageContent.TEXT)) == (store.doc_ids(), text)


def test_without_checksums_a_picture_of_another_size_is_noticed(store, edit_record):
    edit_record(StoreLayout(store.path).manifest("deck"), ('"width": 60', '"width": 61'))
    page = DocumentStore(store.path).page(PageRef("deck", 1))
    with pytest.raises(UserError, match=r"deck#1.*61 x 40 pixels, its picture has 60 x 40"):
        page.image()


def test_a_damaged_object_is_written_anew(store, inbox):
    page = store.page(PageRef("deck", 1))
    path = store.objects.root / page.image_hash[:2] / f"{page.image_hash}.jpg"
    path.write_bytes(b"not it")
    assert store.objects.put_image((inbox / "deck" / "1.jpg").read_bytes()) == page.image_hash
    assert page.image().size == (60, 40)


def test_a_manifest_cannot_lead_out_of_the_store(store, edit_record):
    manifest = StoreLayout(store.path).manifest("deck")
    digest = store.page(PageRef("deck", 1)).image_hash
    edit_record(manifest, (digest, "../../../../etc/passwd"))
    with pytest.raises(UserError, match=r"pages\.0: .*image: .* is no SHA-256"):
        DocumentStore(store.path).document("deck")


def test_an_object_of_another_format_is_no_picture(store):
    """The name of the object is right; what would be read is not what ingest writes."""
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "EPS")
    digest = store.objects.put_image(buffer.getvalue())
    with pytest.raises(UserError, match=f"{digest}.jpg is not a picture"):
        store.decode(digest)


def test_a_manifest_that_is_a_link_to_nowhere_is_named(store, tmp_path):
    link = tmp_path / "store" / "documents" / f"{'0' * 64}.json"
    link.symlink_to("gone")
    with pytest.raises(UserError, match=f"{link} is a link that leads nowhere"):
        DocumentStore(tmp_path / "store").doc_ids()
