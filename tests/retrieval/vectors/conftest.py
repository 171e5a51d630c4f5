"""Indexes of vectors: in files, and in collections of every engine that runs here."""

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines import qdrant
from docagent_rl.retrieval.engines.build import build_collection
from docagent_rl.retrieval.indexes import open_index
from docagent_rl.retrieval.vectors.build import BuiltIndex, build_index
from docagent_rl.retrieval.vectors.index import VectorKind
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.retrieval.vectors.encoders import HashingEncoder, vectors

LATE = VectorKind.LATE_INTERACTION
WORDS = [
    "cat",
    "dog",
    "bird",
    "tree",
    "rose",
    "grow",
    "iron",
    "gold",
    "tin",
    "mat",
    "sat",
    "the",
    "a",
    "of",
]
QUERIES = ["the cat sat", "gold", "tree of iron and roses", "nothing of this", "mat"]
PLACES = {
    "embedded": {},
    # Qdrant's client, with the storage of its own that answers as a server does
    "qdrant": {"engine": SearchEngine.QDRANT, "url": "http://127.0.0.1:6333"},
    "lancedb": {"engine": SearchEngine.LANCEDB},
}


def texts(seed: int, pages: int) -> list[str]:
    """Return pages of 0 to 12 words, some of them the same."""
    random = Random(seed)
    return [
        " ".join(random.choices(WORDS, k=random.choice([0, 1, 5, 5, 9, 12]))) for _ in range(pages)
    ]


CORPUS = {f"doc-{number:02}": texts(number, 1 + number * 5 % 13) for number in range(12)}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory, make_store):
    """Return twelve documents."""
    return make_store(tmp_path_factory.mktemp("vectors"), CORPUS)


@pytest.fixture(scope="session")
def built(corpus, tmp_path_factory) -> Path:
    """Return an index of `corpus`, which tests must not change."""
    path = tmp_path_factory.mktemp("built") / "index"
    build_index(corpus, vectors(), path, kind=LATE)
    return path


@pytest.fixture
def index(built, tmp_path) -> Path:
    """Return a copy of `built` that the test may change."""
    return Path(shutil.copytree(built, tmp_path / "index"))


@pytest.fixture(params=list(PLACES))
def where(request, monkeypatch) -> dict:
    """Return the arguments of `build_collection` that name an engine; none for files."""
    from qdrant_client import QdrantClient

    client = QdrantClient(":memory:")
    monkeypatch.setattr(qdrant, "connect_qdrant", lambda url, **_: client)
    return PLACES[request.param]


@pytest.fixture
def build(where, tmp_path) -> Callable[..., BuiltIndex]:
    """Return a function that builds the index in the folder `tmp_path / "index"`."""

    def run(store: DocumentStore, made=None, **options) -> BuiltIndex:
        options = {"kind": LATE, **where, **options}
        run = build_collection if where else build_index
        return run(store, made or vectors(), tmp_path / "index", **options)

    return run


@pytest.fixture
def found(build, corpus, tmp_path):
    """Return an index of `corpus` that the test may change."""
    build(corpus)
    return open_index(tmp_path / "index")


@pytest.fixture
def retriever(found) -> VectorRetriever:
    return VectorRetriever(found, HashingEncoder)
