"""Collections of every engine that runs here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from qdrant_client import QdrantClient

from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines import qdrant
from docagent_rl.retrieval.engines.build import build_collection
from docagent_rl.retrieval.engines.collection import CollectionIndex
from docagent_rl.retrieval.vectors.build import BuiltIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.retrieval.vectors.conftest import LATE, built, corpus  # noqa: F401
from tests.retrieval.vectors.encoders import HashingEncoder, vectors

PLACES = {
    # Qdrant's client, with the storage of its own that answers as a server does
    "qdrant": {"engine": SearchEngine.QDRANT, "url": "http://127.0.0.1:6333"},
    "lancedb": {"engine": SearchEngine.LANCEDB},
}


@pytest.fixture(params=list(PLACES))
def where(request, monkeypatch) -> dict:
    client = QdrantClient(":memory:")
    monkeypatch.setattr(qdrant, "connect", lambda url, **_: client)
    return PLACES[request.param]


@pytest.fixture
def build(where, tmp_path) -> Callable[..., BuiltIndex]:
    """Builds the collection of the folder `tmp_path / "index"`."""

    def run(store: DocumentStore, made=None, **options) -> BuiltIndex:
        options = {"kind": LATE, **where, **options}
        return build_collection(store, made or vectors(), tmp_path / "index", **options)

    return run


@pytest.fixture
def found(build, corpus, tmp_path) -> CollectionIndex:  # noqa: F811
    """The index of `corpus`, to be changed."""
    build(corpus)
    return CollectionIndex.open(tmp_path / "index")


@pytest.fixture
def retriever(found) -> VectorRetriever:
    return VectorRetriever(found, HashingEncoder)
