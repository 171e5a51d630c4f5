"""Time BM25 over many made pages, through the code that a run searches with.

python -m benchmarks.retrieval.words --pages 100000
"""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, cast

import numpy as np
import typer

from benchmarks.common import show, single_thread
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.bm25 import BM25Retriever

_PAGES_OF_DOCUMENT = 50
_WORDS_OF_PAGE = 300
_VOCABULARY = 200_000
_QUESTIONS = 200
_TOP = 10


class WordSource:
    """Draws words with frequencies as in a language: they fall with the rank of a word."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(5)
        weights = 1.0 / (np.arange(_VOCABULARY) + 2.7)
        self._shares = np.cumsum(weights / weights.sum())

    def words(self, count: int) -> list[str]:
        """Draw `count` words; a word is `w` and its rank in base 16."""
        return [f"w{rank:x}" for rank in np.searchsorted(self._shares, self._rng.random(count))]


@dataclass(frozen=True)
class MadePage:
    """A page of a document, with what an index reads of it."""

    ref: PageRef
    written: str

    def text(self) -> str:
        """Return the words of the page."""
        return self.written

    searched_text = text


@dataclass(frozen=True)
class MadeDocument:
    """A document without bookmarks."""

    doc_id: str
    source: WordSource
    num_pages: int = _PAGES_OF_DOCUMENT
    title: str = "Made pages"
    outline: tuple = ()

    @cached_property
    def _texts(self) -> list[str]:
        return [" ".join(self.source.words(_WORDS_OF_PAGE)) for _ in range(_PAGES_OF_DOCUMENT)]

    def page(self, number: int) -> MadePage:
        """Return a page by its number, from 1."""
        return MadePage(PageRef(self.doc_id, number), self._texts[number - 1])


class MadeStore:
    """A store whose documents are made whenever they are read, and take no memory otherwise."""

    path = Path("made")

    def __init__(self, pages: int) -> None:
        self._ids = [f"{number:07}" for number in range(pages // _PAGES_OF_DOCUMENT)]
        self._source = WordSource()

    def doc_ids(self) -> list[str]:
        """Return the ids of all documents."""
        return self._ids

    def document(self, doc_id: str) -> MadeDocument:
        """Make a new document with that id."""
        return MadeDocument(doc_id, self._source)

    def fingerprint(self, _: Any) -> str:
        """Return a constant as the store's fingerprint, since the documents never change."""
        return "0" * 64


def peak_gb() -> float:
    """Return the peak memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main(
    pages: Annotated[int, typer.Option(help="Pages, of 300 words each.")] = 100_000,
) -> None:
    """Print the processor time of building, loading and searching an index, its memory and size."""
    single_thread(cpu=True)
    with TemporaryDirectory() as folder:
        start = time.process_time()
        BM25Retriever.build(cast("DocumentStore", MadeStore(pages))).save(Path(folder) / "index")
        build_seconds = time.process_time() - start
        memory = peak_gb()
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())

        start = time.process_time()
        retriever = BM25Retriever.load(Path(folder) / "index")
        load_seconds = time.process_time() - start

        source = WordSource()
        times = []
        first_document = f"{0:07}"
        for doc_id in (None, first_document):
            queries = [" ".join(source.words(8)) for _ in range(_QUESTIONS)]
            retriever.search(queries[:5], doc_id=doc_id, top_k=_TOP)  # warms up
            start = time.process_time()
            for query in queries:
                retriever.search([query], doc_id=doc_id, top_k=_TOP)
            times.append(f"{(time.process_time() - start) / _QUESTIONS * 1e3:.1f}")
    row = [
        f"{build_seconds:.0f}",
        f"{memory:.1f}",
        f"{size / 1e6:.0f}",
        f"{load_seconds:.1f}",
        *times,
    ]
    show(
        f"{pages:,} pages of {_WORDS_OF_PAGE} words",
        ("build CPU s", "GB at most", "MB", "load CPU s", "ms a search", "ms in a document"),
        [row],
    )


if __name__ == "__main__":
    typer.run(main)
