"""Stores made of others."""

import os

import numpy as np
import pytest

from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.documents.derived import Face, derive
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import UserError


@pytest.fixture
def store(inbox, write_pdf, tmp_path):
    write_pdf(inbox / "a.pdf", ["alpha one", "alpha two"], size=(200, 100), outline=[("First", 0, 1)])
    write_pdf(inbox / "b.pdf", ["beta one"], size=(100, 300))
    ingest(inbox, tmp_path / "store", workers=1)
    return DocumentStore(tmp_path / "store")


def kept(_, entries):
    return entries


def test_what_stays_is_the_same_object(store, tmp_path):
    made = derive(store, tmp_path / "made", store.doc_ids(), lambda ref: Face(ref, ref), kept)
    for ref in store.pages():
        old, new = store.page(ref), made.page(ref)
        assert (new.image_hash, new.text(), new.lines(), new.size) == (
            old.image_hash, old.text(), old.lines(), old.size,
        )  # fmt: skip
        paths = [each.objects.path(old.image_hash, _image()) for each in (store, made)]
        assert paths[0].samefile(paths[1])
    assert made.document("a").outline == store.document("a").outline


def _image():
    from docagent_rl.documents.objects import Kind

    return Kind.IMAGE


def test_white_pages_have_the_size_and_no_text(store, tmp_path):
    made = derive(store, tmp_path / "made", ["a"], lambda _: Face(None, None), lambda *_: ())
    assert made.doc_ids() == ["a"]
    for number in (1, 2):
        old, new = (each.document("a").page(number) for each in (store, made))
        assert (new.size, new.text(), new.lines(), new.words()) == (old.size, "", (), ())
        assert np.asarray(new.image()).min() == 255
        assert new.image_hash != old.image_hash
    assert made.document("a").outline == []


def test_picture_and_text_may_be_of_other_pages(store, tmp_path):
    other = PageRef("b", 1)
    made = derive(store, tmp_path / "made", ["a"], lambda ref: Face(other, ref), kept)
    page = made.document("a").page(2)
    assert page.text() == store.document("a").page(2).text()
    assert page.size == store.page(other).size
    np.testing.assert_array_equal(np.asarray(page.image()), np.asarray(store.page(other).image()))


def test_a_disk_without_links_gets_copies(store, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no links here")

    monkeypatch.setattr(os, "link", refuse)
    made = derive(store, tmp_path / "made", ["b"], lambda ref: Face(ref, ref), kept)
    assert made.document("b").page(1).text() == store.document("b").page(1).text()
    assert made.document("b").page(1).image().size == store.document("b").page(1).size


def test_nothing_is_left_of_a_store_that_cannot_be_made(store, tmp_path):
    def missing(ref):
        return Face(PageRef("nobody", 1), ref)

    with pytest.raises(UserError, match="no document 'nobody'"):
        derive(store, tmp_path / "made", ["a"], missing, kept)
    assert not (tmp_path / "made").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
