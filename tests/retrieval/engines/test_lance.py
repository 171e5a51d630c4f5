"""Tests that only concern LanceDB."""

import pytest

from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines import lance
from docagent_rl.retrieval.engines.build import build_collection
from docagent_rl.retrieval.engines.collection import CollectionIndex
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.retrieval.vectors.conftest import LATE
from tests.retrieval.vectors.encoders import HashingEncoder, vectors


@pytest.fixture
def indexed(corpus, tmp_path, monkeypatch):
    """Return a collection whose candidates come from an index."""
    monkeypatch.setattr(lance, "INDEXED_FROM", 1)
    build_collection(corpus, vectors(), tmp_path / "index", engine=SearchEngine.LANCEDB, kind=LATE)
    return CollectionIndex.open(tmp_path / "index")


def test_candidates_of_its_index_are_scored_exactly(indexed, built):
    assert {each.columns[0] for each in indexed.collection._pages.list_indices()} == {
        "doc_id",
        "vectors",
    }
    (found,), (best,) = (
        VectorRetriever(index, HashingEncoder).search(["the cat sat"], top_k=5)
        for index in (indexed, VectorIndex.open(built))
    )
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in best], abs=1e-3)


def test_names_of_documents_are_quoted(indexed):
    before = indexed.collection.count()
    indexed.collection.remove(["it's", "x' OR 'a' = 'a"])
    assert indexed.collection.count() == before > 0
