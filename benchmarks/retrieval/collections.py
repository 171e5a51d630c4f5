"""Time late interaction in the collections of search engines, through the code that a run uses.

    python -m benchmarks.retrieval.collections --data FOLDER --pages 2000

LanceDB in a folder, and with --qdrant a Qdrant server, are compared with an exact scan of the same
pages.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from benchmarks.common import show, single_thread
from benchmarks.retrieval.corpus_data import DIM, Tokens, tokens
from benchmarks.retrieval.corpus_data import pages as made_pages
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import PageContent
from docagent_rl.retrieval.base import top_rows
from docagent_rl.retrieval.config import EngineConfig, SearchEngine
from docagent_rl.retrieval.engines.collection import open_collection
from docagent_rl.retrieval.engines.contents import CollectionHeader, VectorPage
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.vectors.bank import (
    NO_SCORE,
    Bank,
    make_bank,
    open_bank,
    page_scores,
    rounded,
    write_banks,
)
from docagent_rl.retrieval.vectors.index import VectorKind

if TYPE_CHECKING:
    from docagent_rl.retrieval.engines.collection import Collection

_TOP, _PAGES_A_DOCUMENT, _AT_A_TIME = 10, 50, 500
_COLUMNS = ("search", "build CPU s", "MB", "CPU ms", "seconds ms", "recall@10")


def open_or_make_bank(folder: Path, real: Tokens, count: int) -> Bank:
    """Open a bank of `count` pages mapped into memory; make its files first if they are missing."""
    bank_folder = folder / f"pages-{count}"
    if not bank_folder.is_dir():
        bank_folder.mkdir()
        pages = made_pages(real, count, seed=1)
        # all pages are too many for memory
        blocks = iter(lambda: list(islice(pages, _AT_A_TIME)), [])
        write_banks(bank_folder, (make_bank(block, DIM) for block in blocks))
    return open_bank(bank_folder)


def gold(bank: Bank, queries: list[np.ndarray]) -> tuple[list[set[int]], float]:
    """Find the best pages of each query by an exact scan.

    Returns:
        the rows of the best pages in the bank, for each query; and the median processor seconds of
        a scan.
    """
    page_scores(bank, queries[:1])
    best, seconds = [], []
    for query in queries:
        start = time.process_time()
        rows = top_rows(page_scores(bank, [query])[0], _TOP, NO_SCORE)
        seconds.append(time.process_time() - start)
        best.append(set(rows.tolist()))
    return best, float(np.median(seconds))


def opened(engine: SearchEngine, folder: Path, url: str | None) -> Collection:
    """Create an empty collection in a folder, or at the server at `url`."""
    shutil.rmtree(folder, ignore_errors=True)
    header = CollectionHeader.model_validate(
        {
            "kind": VectorKind.LATE_INTERACTION,
            "encoder": "0" * 64,
            "content": PageContent.TEXT,
            "dim": DIM,
            "engine": engine,
            "collection": "pages",
            "spec": {},
        }
    )
    collection = open_collection(IndexFiles(folder), header, EngineConfig(url=url))
    collection.create()
    return collection


def stored(bank: Bank) -> Iterator[VectorPage]:
    """Yield the pages of a bank, 50 to a document."""
    for row in range(bank.num_pages):
        ref = PageRef(f"{row // _PAGES_A_DOCUMENT:06}", row % _PAGES_A_DOCUMENT + 1)
        yield VectorPage(ref, "0" * 64, bank.span(row, row + 1).vectors.float().numpy())


def row_of(ref: PageRef) -> int:
    """Return the row of a page in the bank."""
    return int(ref.doc_id) * _PAGES_A_DOCUMENT + ref.page - 1


def measured(
    engine: SearchEngine,
    bank: Bank,
    queries: list[np.ndarray],
    folder: Path,
    url: str | None = None,
) -> Iterator[tuple]:
    """Fill a collection, search it, and yield the rows of the table.

    The first two rows search all documents with 100 and 200 candidates, the third one document.
    """
    best, _ = gold(bank, queries)
    collection = opened(engine, folder, url)

    start = time.process_time()
    pages = stored(bank)
    while some := list(islice(pages, _AT_A_TIME)):
        collection.add(some)
    collection.finish()
    build_seconds = time.process_time() - start
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e6

    for doc_id, candidates in ((None, 100), (None, 200), ("000000", 0)):
        found = []
        cpu_start = time.process_time()
        wall_start = time.perf_counter()
        for query in queries:
            hits = collection.search(
                rounded(query),
                doc_id=doc_id,
                top_k=_TOP,
                exclude=frozenset(),
                candidates=candidates,
            )
            found.append({row_of(hit.ref) for hit in hits})
        cpu_seconds = time.process_time() - cpu_start
        wall_seconds = time.perf_counter() - wall_start

        searched, recall = "a document of 50 pages", ""
        if doc_id is None:
            searched = f"{candidates} candidates"
            shares = [len(want & got) / _TOP for want, got in zip(best, found, strict=True)]
            recall = f"{np.mean(shares):.3f}"
        yield (
            f"{engine.value}, {searched}",
            f"{build_seconds:.0f}",
            f"{size:.0f}",
            f"{cpu_seconds / len(queries) * 1e3:.1f}",
            f"{wall_seconds / len(queries) * 1e3:.1f}",
            recall,
        )


def main(
    data: Annotated[
        Path,
        typer.Option(help="A folder for the collections, and for vectors, which are made once."),
    ],
    pages: Annotated[int, typer.Option(help="Pages, with about 126 vectors each.")] = 2000,
    questions: Annotated[int, typer.Option(help="Number of queries.")] = 40,
    qdrant: Annotated[
        str | None,
        typer.Option(help="URL of a Qdrant server; its own time and bytes are not counted."),
    ] = None,
) -> None:
    """Print time, size and recall of late interaction in collections.

    Times are the processor time of all threads of this process.
    """
    single_thread(cpu=True)
    real = tokens(data, 3000, 100)
    bank = open_or_make_bank(data, real, pages)
    queries = real.queries[:questions]
    rows = [*measured(SearchEngine.LANCEDB, bank, queries, data / "collection-lancedb")]
    if qdrant:
        rows += measured(SearchEngine.QDRANT, bank, queries, data / "collection-qdrant", qdrant)
    _, exact = gold(bank, queries)
    rows.append(("embedded, all pages", "", f"{bank.vectors.nbytes / 1e6:.0f}",
                 f"{exact * 1e3:.1f}", "", "1.000"))  # fmt: skip
    show(f"{pages:,} pages, {len(bank.vectors) / 1e6:.2f} M vectors", _COLUMNS, rows)


if __name__ == "__main__":
    typer.run(main)
