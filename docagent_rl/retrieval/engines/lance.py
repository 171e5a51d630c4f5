"""A collection of LanceDB: a table with one row per page, which contains all its vectors.

LanceDB stores tables in files in a folder or an object store. Any number of processes can read them
while one writes. The index of the multivector column (IVF and product quantisation) yields the
candidates of a search over all documents. The scores are computed here from the whole vectors, as
for an embedded index.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import Hit, Pages, ServerFaultError
from docagent_rl.retrieval.vectors.bank import Bank, page_scores

if TYPE_CHECKING:
    import lancedb

    from docagent_rl.retrieval.engines.contents import CollectionHeader, VectorPage

INDEXED_FROM = 5_000
"""Minimum number of pages for an index; with fewer pages, the first stage is a scan."""
_PROBES = 32
_PARTITION = 4_096
"""Number of vectors per partition of the index. By default, LanceDB counts pages instead, and makes
partitions of a million vectors.
"""
_SAMPLE = 100
_TABLES = 10_000
_KEPT = timedelta(days=1)
"""The time for which old versions are kept, which readers may still have open."""
_FOUND = ["doc_id", "page", "vectors"]


class LanceCollection:
    """A table at an address: a folder, or `s3://...` as LanceDB takes it.

    Several threads may search at once; there is one writer. Methods raise a `ServiceFailedError` if
    the engine cannot be reached or fails. The collections of all engines have these methods.
    """

    def __init__(self, address: str, header: CollectionHeader) -> None:
        import lancedb  # noqa: F401  (a missing package should raise its error here)

        self._address = address
        self._dim = header.dim
        self._name = f"{header.collection}-pages"

    @cached_property
    def _database(self) -> lancedb.DBConnection:
        import lancedb

        # searches see what other processes have written after at most this time
        return lancedb.connect(self._address, read_consistency_interval=timedelta(seconds=5))

    @cached_property
    def _pages(self) -> lancedb.Table:
        return self._database.open_table(self._name)

    @property
    def _schema(self) -> pa.Schema:
        vectors = pa.list_(pa.list_(pa.float16(), self._dim))
        return pa.schema(
            [
                ("doc_id", pa.string()),
                ("page", pa.int64()),
                ("digest", pa.string()),
                ("vectors", vectors),
            ]
        )

    def exists(self) -> bool:
        """Return whether the collection exists."""
        with _answering():
            return self._name in self._database.list_tables(limit=_TABLES).tables

    def create(self) -> None:
        """Create an empty collection, replacing an existing one."""
        self.__dict__.pop("_pages", None)
        with _answering():
            self._database.create_table(self._name, schema=self._schema, mode="overwrite")

    def pages(self) -> Iterator[tuple[PageRef, str]]:
        """Yield all pages with the digests of their documents, in any order."""
        with _answering():
            table = self._pages.search().select(["doc_id", "page", "digest"]).to_arrow()
        for row in table.to_pylist():
            yield PageRef(row["doc_id"], row["page"]), row["digest"]

    def count(self) -> int:
        """Return the number of pages, including those of unfinished documents."""
        with _answering():
            return self._pages.count_rows()

    def add(self, pages: Sequence[VectorPage]) -> None:
        """Store pages."""
        counts = [len(page.vectors) for page in pages]
        numbers = np.concatenate([page.vectors for page in pages]).astype(np.float16).ravel()
        flat = pa.FixedSizeListArray.from_arrays(pa.array(numbers), self._dim)
        offsets = np.cumsum([0, *counts]).astype(np.int32)
        columns = [
            pa.array([page.ref.doc_id for page in pages]),
            pa.array([page.ref.page for page in pages], pa.int64()),
            pa.array([page.digest for page in pages]),
            pa.ListArray.from_arrays(pa.array(offsets), flat),
        ]
        with _answering():
            self._pages.add(pa.Table.from_arrays(columns, schema=self._schema))

    def remove(self, doc_ids: Sequence[str]) -> None:
        """Remove the pages of documents; unknown ones are ignored."""
        condition = f"doc_id IN ({', '.join(map(_quoted, doc_ids))})"
        with _answering():
            self._pages.delete(condition)

    def finish(self) -> None:
        """Update the search index; to be called after changes."""
        from lancedb.index import BTree, IvfPq

        with _answering():
            # merge small files and add new rows to existing indexes; called before a new index is
            # created, which it would otherwise rewrite
            self._pages.optimize(cleanup_older_than=_KEPT)
            known = {each.columns[0] for each in self._pages.list_indices()}
            if "doc_id" not in known:
                self._pages.create_index("doc_id", config=BTree())
            if "vectors" not in known and self._pages.count_rows() >= INDEXED_FROM:
                sizes = {
                    "num_sub_vectors": _sub_vectors(self._dim),
                    "num_partitions": self._partitions(),
                }
                self._pages.create_index("vectors", config=IvfPq(distance_type="cosine", **sizes))

    def _partitions(self) -> int:
        """Return the number of partitions for all vectors, estimated from the first pages."""
        sample = self._pages.search().select(["vectors"]).limit(_SAMPLE).to_arrow()["vectors"]
        per_page = sum(len(chunk.flatten()) for chunk in sample.chunks) / max(len(sample), 1)
        vectors = per_page * self._pages.count_rows()
        # each vector is compared with each partition: with more partitions, an index of millions of
        # vectors would take weeks
        return max(1, round(min(vectors / _PARTITION, math.sqrt(vectors))))

    def search(
        self, query: np.ndarray, *, doc_id: str | None, top_k: int, exclude: Pages, candidates: int
    ) -> list[Hit]:
        """Return the best pages for a query, float32 of shape (t, dim), in any order.

        Within a document, all pages are scored. Over all documents, the engine's first stage finds
        `candidates` pages, which are scored. Scores are exact in both cases.
        """
        with _answering():
            if doc_id is not None:
                search = self._pages.search().where(f"doc_id = {_quoted(doc_id)}").select(_FOUND)
            else:
                # excluded pages are removed afterwards
                count = max(top_k, candidates) + len(exclude)
                search = self._pages.search(query, vector_column_name="vectors").distance_type(
                    "cosine"
                )
                search = search.nprobes(_PROBES).select([*_FOUND, "_distance"]).limit(count)
            found = search.to_arrow()
        refs, bank = _bank(found, self._dim)
        if not refs:
            return []
        (scores,) = page_scores(bank, [query])
        return [
            Hit(*pair) for pair in zip(refs, scores.tolist(), strict=True) if pair[0] not in exclude
        ]


@contextmanager
def _answering() -> Generator[None]:
    """Turn errors of LanceDB into `ServerFaultError`."""
    try:
        yield
    # LanceDB has no error class and raises various built-in ones
    except Exception as error:
        raise ServerFaultError(f"LanceDB fails: {error}") from error


def _bank(found: pa.Table, dim: int) -> tuple[list[PageRef], Bank]:
    """Return the pages in a table, and their vectors."""
    import torch

    table = found.combine_chunks()
    refs = list(map(PageRef, table["doc_id"].to_pylist(), table["page"].to_pylist()))
    parts = [chunk for chunk in table["vectors"].chunks if len(chunk)]
    if not parts:
        return [], Bank(torch.zeros(0, dim, dtype=torch.bfloat16), np.zeros(1, np.int64))
    (pages,) = parts
    numbers = pages.flatten().flatten().to_numpy(zero_copy_only=False).reshape(-1, dim)
    offsets = pages.offsets.to_numpy().astype(np.int64)
    return refs, Bank(
        torch.from_numpy(numbers.astype(np.float32)).to(torch.bfloat16), offsets - offsets[0]
    )


def _sub_vectors(dim: int) -> int:
    """Return how many parts of a vector are quantised: of 4 numbers each, or 16 if it is long."""
    size = 4 if dim <= 256 else 16
    return dim // size if dim % size == 0 else 1


def _quoted(text: str) -> str:
    """Return a text as an SQL string."""
    return "'" + text.replace("'", "''") + "'"
