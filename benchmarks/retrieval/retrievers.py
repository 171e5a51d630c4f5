"""Make the retrievers that are measured on real documents.

Their indexes of vectors are stored in the folder that contains the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.tiny.indexes import make_retriever
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.hybrid import HybridPart, HybridRetriever
from docagent_rl.retrieval.indexes import Encoding, build_vectors
from docagent_rl.retrieval.opening import open_local

Make = Callable[[DocumentStore], Retriever]


def vectors(model: str, encoding: Encoding | None = None) -> Make:
    """Return a function that makes a retriever by vectors over a store.

    Args:
        model: a name of the table of encoders, or `tiny_` with a family for a tiny random model.
        encoding: settings of encoding the pages.
    """

    def make(store: DocumentStore) -> Retriever:
        folder = store.path.parent
        is_tiny = model.startswith("tiny_")
        name = str(folder / model) if is_tiny else model
        if is_tiny and not Path(name).is_dir():
            make_retriever(Path(name))

        index = folder / f"index_{model}"
        build_vectors(store, index, name, encoding=encoding)
        kind = "late_interaction" if is_tiny or model.startswith("col") else "dense"
        return open_local(RetrieverConfig(kind=kind, model=name, index=index), store)

    return make


def hybrid(store: DocumentStore) -> Retriever:
    """Return a hybrid of BM25 and the embedded dense model."""
    parts = {
        "words": HybridPart(BM25Retriever.build(store), 1.5),
        "meaning": HybridPart(vectors("minilm")(store)),
    }
    return HybridRetriever(parts)


RETRIEVERS: Mapping[str, Make] = {
    "bm25": BM25Retriever.build,
    "minilm": vectors("minilm"),
    "hybrid": hybrid,
    "tiny_colqwen2": vectors("tiny_colqwen2"),
}
"""Functions that make the measured retrievers, by name; add a line to measure another one.

`tiny_colqwen2` has random weights: the pages that it finds are random, but its time is real.
"""
