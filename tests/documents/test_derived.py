"""Stores made of others."""

import os

import numpy as np
import pytest

from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.documents.derived import Face, derive
from docagent_rl.documents.objects import Kind
from docagent_rl.errors import UserError
from tests.documents.here import ingest_here

OTHER = PageRef("b", 1)


@pytest.fixture(scope="module")
def store(write_pdf, tmp_path_factory):
    root = tmp_path_factory.mktemp("derived")
    write_pdf(root / "in" / "a.pdf", ["alpha one", "alpha two"], size=(200, 100), outline=[("First", 0, 1)])
    write_pdf(root / "in" / "b.pdf", ["beta one"], size=(100, 300))
    ingest_here(root / "in", root / "store", dpi=72)
    return DocumentStore(root / "store")


def kept(_, entries):
    return entries


@pytest.mark.parametrize("links", [True, False])
def test_what_stays_is_the_same_object_or_a_copy(store, tmp_path, monkeypatch, links):
    def refuse(*_):
        raise OSError("no links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    made = derive(store, tmp_path / "made", store.doc_ids(), lambda ref: Face(ref, ref), kept)
    for ref in store.pages():
        old, new = store.page(ref), made.page(ref)
        for field in ("image_hash", "size"):
            assert getattr(new, field) == getattr(old, field)
        assert (new.text(), new.lines(), new.image().size) == (old.text(), old.lines(), old.size)
        paths = [each.objects.path(old.image_hash, Kind.IMAGE) for each in (store, made)]
        assert paths[0].samefile(paths[1]) is links
    assert made.document("a").outline == store.document("a").outline


def test_white_pages_have_the_size_and_no_text(store, tmp_path):
    made = derive(store, tmp_path / "made", ["a"], lambda _: Face(None, None), lambda *_: ())
    assert made.doc_ids() == ["a"]
    for number in (1, 2):
        old, new = (each.document("a").page(number) for each in (store, made))
        assert (new.size, new.text(), new.lines(), new.words()) == (old.size, "", (), ())
        assert np.asarray(new.image()).min() == 255
    assert made.document("a").outline == []


def test_picture_and_text_may_be_of_other_pages(store, tmp_path):
    made = derive(store, tmp_path / "made", ["a"], lambda ref: Face(OTHER, ref), kept)
    page = made.document("a").page(2)
    assert page.text() == store.document("a").page(2).text()
    assert page.size == store.page(OTHER).size
    np.testing.assert_array_equal(np.asarray(page.image()), np.asarray(store.page(OTHER).image()))


def test_nothing_is_left_of_a_store_that_cannot_be_made(store, tmp_path):
    with pytest.raises(UserError, match="'nobody'"):
        derive(store, tmp_path / "made", ["a"], lambda ref: Face(PageRef("nobody", 1), ref), kept)
    assert list(tmp_path.iterdir()) == []
