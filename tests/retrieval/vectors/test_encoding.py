"""Pages of several documents, encoded by real small encoders."""

import math

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.encoders.facts import EncoderFacts
from docagent_rl.retrieval.encoders.opening import open_encoder
from docagent_rl.retrieval.vectors.encoding import (
    PageVectors,
    encode_documents,
    page_windows,
)
from docagent_rl.retrieval.vectors.index import stored_documents
from tests.retrieval.encoders.conftest import assert_same, tiny, tiny_spec  # noqa: F401  a fixture
from tests.tiny_retrievers import TinyRetriever

PAGES = {
    f"leaflet{number:02}": [f"page {number} tells of cats"] * (1 + number % 3)
    for number in range(13)
}


@pytest.fixture(scope="module")
def leaflets(tmp_path_factory, make_store):
    return make_store(tmp_path_factory.mktemp("leaflets"), PAGES)


@pytest.fixture(scope="module")
def model(tiny):  # noqa: F811
    return open_encoder(
        tiny_spec(TinyRetriever.COLQWEN2, tiny(TinyRetriever.COLQWEN2)), batch_size=4
    )


@pytest.fixture
def passes(model, monkeypatch):
    """Return the number of pages in each forward pass of the model."""
    found, encode = [], model._encode

    def counted(prepared):
        vectors = encode(prepared)
        found.append(len(vectors))
        return vectors

    monkeypatch.setattr(model, "_encode", counted)
    return found


def encoded(model, store):
    documents = list(stored_documents(store, model.content))
    found = encode_documents(PageVectors(lambda: model), store, documents)
    return {document.doc_id: pages for document, pages in found}


def test_the_model_runs_as_few_passes_as_batches_hold_pages_whatever_their_documents(
    model, leaflets, passes
):
    found = encoded(model, leaflets)
    count = sum(map(len, PAGES.values()))
    assert len(passes) == math.ceil(count / model.batch_size)
    assert sorted(passes)[1:] == [model.batch_size] * (len(passes) - 1)
    assert {doc_id: len(pages) for doc_id, pages in found.items()} == {
        d: len(p) for d, p in PAGES.items()
    }
    for doc_id in ("leaflet00", "leaflet05", "leaflet12"):
        pages = [leaflets.page(ref).image() for ref in leaflets.pages() if ref.doc_id == doc_id]
        assert_same(found[doc_id], [model.encode_pages([page])[0] for page in pages])


def test_windows_hold_whole_batches(leaflets, model):
    documents = list(stored_documents(leaflets, model.content))
    sizes = [len(window) for window in page_windows(documents, EncoderFacts.of(model))]
    assert sizes == [16, 9]


def test_a_page_that_cannot_be_read_is_named(model, leaflets, monkeypatch):
    image = type(leaflets.page(next(iter(leaflets.pages())))).image

    def read(page):
        if str(page.ref) == "leaflet05#2":
            raise UserError("objects/ab/cd is damaged")
        return image(page)

    monkeypatch.setattr(type(leaflets.page(next(iter(leaflets.pages())))), "image", read)
    with pytest.raises(UserError, match=r"leaflet05#2: objects/ab/cd is damaged"):
        encoded(model, DocumentStore(leaflets.path))


def test_a_page_whose_vectors_are_not_finite_is_named(model, leaflets, monkeypatch):
    encode = model._encode

    def broken(prepared):
        vectors = encode(prepared)
        vectors[1] = vectors[1] * np.nan
        return vectors

    monkeypatch.setattr(model, "_encode", broken)
    with pytest.raises(UserError, match=r"leaflet\d\d#\d\) returns vectors that are not finite"):
        encoded(model, leaflets)
