"""Stores of known texts."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.bm25 import BM25Retriever
from tests.documents.conftest import write_pdf
from tests.documents.here import ingest_here

PAGES = {
    "animals": ["the cat sat on the mat", "a dog and a cat and a cat", "", "birds sing"],
    "b.plants": ["trees grow", "the cat likes the catnip plant", "roses and tulips grow grow grow"],
    "numbers": ["table 3 lists 42 items", "table 4 lists 7 items", "birds sing"],
}


def _make_store(folder: Path, documents: Mapping[str, Sequence[str]]) -> DocumentStore:
    """Return a store with one text per page; long texts run off the page, which does not affect the
    text layer.
    """
    for doc_id, texts in documents.items():
        write_pdf(folder / "inbox" / f"{doc_id}.pdf", texts, size=(400, 100))
    ingest_here(folder / "inbox", folder / "store", dpi=10)
    return DocumentStore(folder / "store")


@pytest.fixture(scope="session")
def make_store() -> Callable[[Path, Mapping[str, Sequence[str]]], DocumentStore]:
    return _make_store


@pytest.fixture(scope="session")
def pages() -> dict[str, list[str]]:
    return PAGES


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> DocumentStore:
    return _make_store(tmp_path_factory.mktemp("corpus"), PAGES)


@pytest.fixture(scope="session")
def bm25(store: DocumentStore) -> BM25Retriever:
    return BM25Retriever.build(store)


@pytest.fixture(scope="session")
def saved(bm25: BM25Retriever, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the index of `bm25`, which tests must not change."""
    path = tmp_path_factory.mktemp("saved") / "index"
    bm25.save(path)
    return path


@pytest.fixture(scope="module")
def ray_head(warm_python: Path) -> Iterator[str]:
    """Return the address of a cluster of two nodes; resources that one test file leaves occupied do
    not affect another.
    """
    from ray.cluster_utils import Cluster

    room = {"object_store_memory": 200_000_000}
    head = {"num_cpus": 1, "include_dashboard": False, **room}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", str(warm_python))
        cluster = Cluster(initialize_head=True, head_node_args=head)
        cluster.add_node(num_cpus=3, **room)
    yield cluster.address
    cluster.shutdown()
