import hashlib
import io
import json
import math
import os
import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import seal
from docagent_rl.base.text import one_line
from docagent_rl.documents import OutlineEntry, PageRef, PageRegion
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import Finding
from docagent_rl.documents.objects import ObjectKind
from docagent_rl.documents.store import DocumentStore, PageReplacement, derive
from tests.documents.here import ingest_here


def edit_record(path: Path, *changes: tuple[str, str]) -> None:
    """Replace text in a record, and seal it again."""
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["checksum"]
    text = json.dumps(content, indent=1)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(seal(text), encoding="utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory, write_pdf, write_image):
    root = tmp_path_factory.mktemp("made")
    outline = [("Start", 0, 1), ("More", 1, 3)]
    write_pdf(root / "in" / "report.2023.pdf", ["alpha", "", "gamma"], outline=outline)
    write_image(root / "in" / "deck" / "1.jpg", "red")
    write_image(root / "in" / "deck" / "2.jpg", "blue", size=(30, 20))
    ingest_here(root / "in", root / "store", dpi=72)
    return root


@pytest.fixture
def store(made, tmp_path) -> DocumentStore:
    return DocumentStore(shutil.copytree(made / "store", tmp_path / "store"))


def _path(store, ref, suffix="jpg"):
    page = store.page(PageRef(*ref))
    digest = page.image_hash if suffix == "jpg" else page.text_hash
    return store.objects.root / digest[:2] / f"{digest}.{suffix}"


def test_documents_and_their_pages(store, made):
    assert [name in store for name in ("deck", "report.2023.pdf", 3)] == [True, False, False]
    document = store.document("report.2023")
    assert (document.doc_id, document.num_pages) == ("report.2023", 3)
    assert document.outline == [OutlineEntry("Start", 1, 1), OutlineEntry("More", 2, 3)]
    digest = hashlib.sha256((made / "in" / "report.2023.pdf").read_bytes()).hexdigest()
    assert (document.source.name, document.source.sha256) == ("report.2023.pdf", digest)
    page = document.page(3)
    assert page.ref == PageRef("report.2023", 3)
    assert page.size == page.image().size == (200, 100)
    assert page.image().mode == "RGB"
    assert (page.text(), page.text_hash) == ("gamma", hashlib.sha256(b"gamma").hexdigest())
    assert (document.page(2).text(), document.page(2).text_hash) == ("", None)
    # a document of images has these as they are
    page = store.document("deck").page(2)
    assert (store.document("deck").outline, page.text(), page.size) == ([], "", (30, 20))
    assert page.image_bytes() == (made / "in" / "deck" / "2.jpg").read_bytes()
    assert page.image_hash == hashlib.sha256(page.image_bytes()).hexdigest()


def test_unknown_documents_and_pages_are_named_with_what_is_there(store, tmp_path):
    with pytest.raises(UserError, match=r"'report\.2024'.*'report\.2023'"):
        store.document("report.2024")
    with pytest.raises(UserError, match=r"'../../x'"):
        store.document("../../x")
    with pytest.raises(UserError, match=str(tmp_path)):
        DocumentStore(tmp_path)
    for number in (0, 4, -1, True, 1.0, "1"):
        with pytest.raises(UserError, match=r"'report\.2023'.*1 to 3"):
            store.document("report.2023").page(number)


def test_rasters_are_decoded_once_and_drawing_on_them_does_not_change_them(store, monkeypatch):
    calls, whole = [], Image.open
    monkeypatch.setattr(
        Image, "open", lambda *args, **options: calls.append(1) or whole(*args, **options)
    )
    page = store.page(PageRef("deck", 1))
    before = np.asarray(page.image())
    page.image().paste("black", (0, 0, 60, 40))
    assert (np.asarray(page.image()) == before).all()
    assert len(calls) == 1
    # and by many threads the same
    refs = list(store.pages()) * 4
    expected = [store.page(ref).image().tobytes() for ref in refs]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda ref: store.page(ref).image().tobytes(), refs)) == expected


def test_stores_documents_and_pages_are_pickled_by_reference(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    relative = DocumentStore("store")
    monkeypatch.chdir("/")
    data = pickle.dumps((relative, store.document("deck"), store.page(PageRef("report.2023", 3))))
    assert len(data) < 1000
    again, document, page = pickle.loads(data)
    assert (again.doc_ids(), document.num_pages, page.text()) == (store.doc_ids(), 2, "gamma")


def test_what_is_of_another_page_or_document_is_never_shown(store):
    """The file on disk has the right name and is complete, but has other content."""
    page, path = store.page(PageRef("deck", 1)), _path(store, ("deck", 1))
    path.write_bytes(_path(store, ("deck", 2)).read_bytes())
    for read in (page.image, page.image_bytes):
        with pytest.raises(UserError, match=str(path)):
            read()
    path = _path(store, ("report.2023", 1), "txt.gz")
    path.write_bytes(_path(store, ("report.2023", 3), "txt.gz").read_bytes())
    with pytest.raises(UserError, match=str(path)):
        store.page(PageRef("report.2023", 1)).text()
    layout = StoreLayout(store.path)
    layout.manifest("deck").write_bytes(layout.manifest("report.2023").read_bytes())
    with pytest.raises(UserError, match=r"'report\.2023'"):
        DocumentStore(store.path).document("deck")
    with pytest.raises(UserError, match=layout.manifest("deck").name):
        DocumentStore(store.path).doc_ids()


def test_a_manifest_without_checksum_is_refused(store):
    path = StoreLayout(store.path).manifest("deck")
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["checksum"]
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")
    with pytest.raises(UserError, match="no checksum"):
        DocumentStore(store.path).document("deck")


def test_findings_of_a_page_are_kept_and_unknown_ones_refused(store):
    layout = StoreLayout(store.objects.root.parent)
    path = layout.manifest("deck")
    manifest = layout.read_manifest(path)
    found = (Finding.MISSING_GLYPHS, Finding.TURNED)
    pages = (replace(manifest.pages[0], findings=found), *manifest.pages[1:])
    layout.write_manifest(replace(manifest, pages=pages))
    assert [page.findings for page in layout.read_manifest(path).pages] == [found, ()]
    edit_record(path, ('"turned"', '"twisted"'))
    with pytest.raises(UserError, match=r"findings\.1"):
        layout.read_manifest(path)


def test_a_manifest_cannot_lead_out_of_the_store(store):
    manifest = StoreLayout(store.path).manifest("deck")
    digest = store.page(PageRef("deck", 1)).image_hash
    edit_record(manifest, (digest, "../../../../etc/passwd"))
    with pytest.raises(UserError, match="passwd"):
        DocumentStore(store.path).document("deck").page(1).image()


def test_an_object_of_another_format_is_no_picture(store):
    """The object has the right name, but its content is not what an ingest writes."""
    buffer = io.BytesIO()
    Image.new("RGB", (9, 9)).save(buffer, "EPS")
    digest = store.objects.put(buffer.getvalue())
    with pytest.raises(UserError, match=digest):
        store.decode(digest)


# -- stores made of others


def _kept(_, entries):
    return entries


@pytest.mark.parametrize("links", [True, False])
def test_what_stays_in_a_derived_store_is_the_same_object_or_a_copy(
    store, tmp_path, monkeypatch, links
):
    def refuse(*_):
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    made = derive(
        store, tmp_path / "made", store.doc_ids(), lambda ref: PageReplacement(ref, ref), _kept
    )
    for old, new in ((store.page(ref), made.page(ref)) for ref in store.pages()):
        assert (new.image_hash, new.size, new.text()) == (old.image_hash, old.size, old.text())
        paths = [each.objects.path(old.image_hash, ObjectKind.IMAGE) for each in (store, made)]
        assert paths[0].samefile(paths[1]) is links
    assert made.document("report.2023").outline == store.document("report.2023").outline


def test_pages_of_a_derived_store_may_be_white_or_of_two_others(store, tmp_path):
    other = PageRef("deck", 2)

    def page_source(ref):
        return PageReplacement(None, None) if ref.page < 3 else PageReplacement(other, ref)

    made = derive(store, tmp_path / "made", ["report.2023"], page_source, lambda *_: ()).document(
        "report.2023"
    )
    white, old = made.page(1), store.document("report.2023").page(1)
    assert (white.size, white.text()) == (old.size, "")
    assert np.asarray(white.image()).min() == 255
    assert made.outline == []
    mixed = made.page(3)
    assert (mixed.text(), mixed.size) == ("gamma", store.page(other).size)
    assert mixed.image().tobytes() == store.page(other).image().tobytes()
    # nothing is left of one that cannot be made
    with pytest.raises(UserError, match="'nobody'"):
        derive(
            store,
            tmp_path / "none",
            ["deck"],
            lambda ref: PageReplacement(PageRef("nobody", 1), ref),
            _kept,
        )
    assert {path.name for path in tmp_path.iterdir()} == {"made", "store"}


# -- references


@given(st.text(min_size=1).map(one_line), st.integers(1, 10**6))
def test_parse_reads_what_str_writes(doc_id, page):
    ref = PageRef(doc_id, page)
    assert str(ref) == f"{doc_id}#{page}"
    assert PageRef.parse(str(ref)) == ref
    assert pickle.loads(pickle.dumps(ref)) == ref


def test_references_that_are_none_are_refused():
    """Pages are whole numbers from one, and a region lies inside its page."""
    for page in (0, -1, True, 1.0, "1", None):
        with pytest.raises(UserError, match="'doc'"):
            PageRef("doc", page)
    for text in ("doc", "doc#", "#3", "doc#x", "doc#-1", "doc#²", "doc#0"):
        with pytest.raises(UserError):
            PageRef.parse(text)
    assert PageRegion(PageRef("d", 1), (0, 0.25, 1, 0.5)).box == (0, 0.25, 1, 0.5)
    for box in (
        (0.5, 0, 0.5, 1),
        (0.6, 0, 0.5, 1),
        (-0.1, 0, 1, 1),
        (0, 0, 1, 1.01),
        (0, math.nan, 1, 1),
    ):
        with pytest.raises(UserError, match="d#1"):
            PageRegion(PageRef("d", 1), box)
