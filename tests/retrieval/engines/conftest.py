"""Collections of every engine that runs here."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from qdrant_client import QdrantClient

from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines import qdrant
from docagent_rl.retrieval.engines.build import CollectionPlace, build_collection
from docagent_rl.retrieval.engines.opening import CollectionIndex
from docagent_rl.retrieval.engines.retriever import EngineRetriever
from docagent_rl.retrieval.vectors.build import BuiltIndex
from tests.retrieval.vectors.conftest import LATE, built, corpus  # noqa: F401
from tests.retrieval.vectors.encoders import HashingEncoder, hashing

PLACES = {
    # Qdrant's client, with the storage of its own that answers as a server does
    "qdrant": CollectionPlace(SearchEngine.QDRANT, "http://127.0.0.1:6333"),
    "lancedb": CollectionPlace(SearchEngine.LANCEDB),
}


@pytest.fixture(params=list(PLACES))
def where(request, monkeypatch) -> CollectionPlace:
    client = QdrantClient(":memory:")
    monkeypatch.setattr(qdrant, "connect", lambda url, **_: client)
    return PLACES[request.param]


@pytest.fixture
def build(where, tmp_path) -> Callable[..., BuiltIndex]:
    """Builds the collection of the folder `tmp_path / "index"`."""

    def run(store: DocumentStore, encoder=hashing(), **options) -> BuiltIndex:  # noqa: B008
        return build_collection(
            store, encoder, tmp_path / "index", **{"kind": LATE, "where": where, **options}
        )

    return run


@pytest.fixture
def found(build, corpus, tmp_path) -> CollectionIndex:  # noqa: F811
    """The index of `corpus`, to be changed; closed afterwards."""
    build(corpus)
    index = CollectionIndex.open(tmp_path / "index")
    yield index
    index.collection.close()


@pytest.fixture
def retriever(found, corpus) -> EngineRetriever:  # noqa: F811
    return EngineRetriever(found, HashingEncoder(), corpus)
