"""Builds of an index in other processes, which may kill themselves, and what they leave behind."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines import build, lance, qdrant
from docagent_rl.retrieval.engines.build import build_collection
from docagent_rl.retrieval.engines.lance import LanceCollection
from docagent_rl.retrieval.engines.qdrant import QdrantCollection
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.indexes import audit_index, open_index
from docagent_rl.retrieval.vectors import build as embedded
from docagent_rl.retrieval.vectors.build import BuiltIndex, build_index
from docagent_rl.retrieval.vectors.index import VectorKind
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.retrieval.vectors.conftest import QUERIES
from tests.retrieval.vectors.encoders import HashingEncoder, vectors

PLACES: dict[str, dict[str, Any]] = {
    "embedded": {},
    "qdrant": {"engine": SearchEngine.QDRANT, "url": "http://127.0.0.1:6333"},
    "lancedb": {"engine": SearchEngine.LANCEDB},
}
OWNERS: dict[str, Any] = {
    each.__name__: each for each in (IndexFiles, LanceCollection, QdrantCollection, embedded._Build)
}
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.retrieval.engines.killed"])
_client = cache(lambda place: QdrantClient(path=str(place)))


@dataclass(frozen=True)
class Killed:
    """The moment at which a process dies: before or after a call that changes something on disk.

    `call` names a class and its method, and `number` counts the calls from 1.
    """

    engine: str
    call: str
    number: int = 1
    behind: bool = False

    def __str__(self) -> str:
        return f"{self.engine}-{'behind' if self.behind else 'before'}-{self.call}-{self.number}"

    def arm(self) -> None:
        """Make this process kill itself at the moment, as a machine does that stops: nothing is
        closed or flushed.
        """
        owner_name, name = self.call.split(".")
        owner = OWNERS[owner_name]
        found: Callable[..., Any] = getattr(owner, name)
        calls = 0

        def counted(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == self.number and not self.behind:
                os.kill(os.getpid(), signal.SIGKILL)
            result = found(*arguments, **options)
            if calls == self.number:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        setattr(owner, name, counted)


def use_small_parts(folder: Path) -> None:
    """Store few documents at a time, index few pages, and put Qdrant's points next to the index."""
    build._NUMBERS, build._HEADER_SHARE, lance.INDEXED_FROM = 200, 0, 1
    qdrant.connect_qdrant = lambda url, **_: _client(folder.parent / "points")


def build_here(engine: str, store: DocumentStore, folder: Path, **encoder: Any) -> BuiltIndex:
    """Build in this process; an index of another encoder is replaced."""
    run = build_collection if PLACES[engine] else build_index
    options = {"kind": VectorKind.LATE_INTERACTION, "replace": bool(encoder), **PLACES[engine]}
    return run(store, vectors(**encoder), folder, **options)


def build_there(
    engine: str, store: DocumentStore, folder: Path, moment: Killed | None = None, **encoder: Any
) -> int | None:
    """Build in another process, which dies at a moment; return its exit code."""
    process = PROCESSES.Process(target=_build, args=(engine, store.path, folder, moment, encoder))
    process.start()
    process.join()
    return process.exitcode


def _build(
    engine: str, store: Path, folder: Path, moment: Killed | None, encoder: dict[str, Any]
) -> None:
    use_small_parts(folder)
    if moment is not None:
        moment.arm()
    build_here(engine, DocumentStore(store), folder, **encoder)


def found_in(folder, **encoder):
    """Return all pages that searches find, with their scores."""
    hits = VectorRetriever(open_index(folder), partial(HashingEncoder, **encoder)).search(
        QUERIES, top_k=1000
    )
    return {
        (query, hit.ref): hit.score
        for query, each in zip(QUERIES, hits, strict=True)
        for hit in each
    }


def columns_of(folder, engine):
    if engine != "lancedb":
        return None
    return {each.columns[0] for each in open_index(folder).collection._pages.list_indices()}


def check_whole(folder, store, engine, **encoder):
    """Assert that the index equals that of a build that was never killed."""
    open_index(folder).check(store)
    assert not audit_index(folder).damages
    assert columns_of(folder, engine) in (None, {"doc_id", "vectors"})
    assert build_here(engine, store, folder, **encoder).new == 0
    other = folder.parent / "never-killed" / "index"
    build_here("embedded", store, other, **encoder)
    # engines agree on so many digits
    assert found_in(folder, **encoder) == pytest.approx(found_in(other, **encoder), abs=2e-3)
