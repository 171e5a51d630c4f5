"""First stages of a search over a corpus, on the same work."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from docagent_rl.retrieval.vectors.bank import Bank, make_bank
from docagent_rl.retrieval.vectors.candidates import Candidates, train_clusters
from docagent_rl.retrieval.vectors.maxsim import page_scores

_BLOCK = 1 << 17
_DEPTHS = {8: 512, 16: 1024, 32: 1024}
"""Of FAISS's token indexes, by nprobe: vectors found for a query's vector."""


class Engine(Protocol):
    """Finds pages that are worth exact scores.

    Args:
        bank: of the pages.
        folder: for files.
    """

    needs: ClassVar[tuple[str, ...]]
    """Modules."""
    named: ClassVar[str]
    """What a setting is."""
    megabytes: float
    """On disk, without the vectors that are scored exactly afterwards (LanceDB: with its own copy)."""

    def __init__(self, bank: Bank, folder: Path) -> None: ...

    def search(self, query: np.ndarray, setting: int, count: int) -> np.ndarray:
        """Numbers of `count` pages at most, int64."""
        ...


class ClusterLists:
    """Ours: lists of pages by clusters of vectors."""

    needs: ClassVar = ("faiss",)
    named: ClassVar = "probes"

    def __init__(self, bank: Bank, folder: Path) -> None:
        self._candidates = found = Candidates.make(bank, train_clusters(bank))
        arrays = (found.starts, found.pages, found.clusters.centres)
        self.megabytes = sum(array.nbytes for array in arrays) / 1e6

    def search(self, query: np.ndarray, setting: int, count: int) -> np.ndarray:
        return _top(self._candidates.sums(query, setting), count)


class _Faiss:
    """The nearest vectors of each of the query's; a page counts with its best, or with the token's worst."""

    needs: ClassVar = ("faiss",)
    named: ClassVar = "nprobe"
    factory: ClassVar[str]

    def __init__(self, bank: Bank, folder: Path) -> None:
        import faiss

        faiss.omp_set_num_threads(1)
        lists = 4096 if len(bank.vectors) > 2_000_000 else 2048
        self._index = faiss.index_factory(bank.dim, f"IVF{lists},{self.factory}", faiss.METRIC_INNER_PRODUCT)
        chosen = np.random.default_rng(0).choice(len(bank.vectors), lists * 40, replace=False)
        self._index.train(bank.rows(chosen))
        for block in _blocks(bank):
            self._index.add(block)
        path = folder / "engine.faiss"
        faiss.write_index(self._index, str(path))
        self.megabytes = path.stat().st_size / 1e6
        path.unlink()
        self._page, self._count = _pages_of(bank), bank.num_pages

    def search(self, query: np.ndarray, setting: int, count: int) -> np.ndarray:
        self._index.nprobe = setting
        products, found = self._index.search(query, _DEPTHS[setting])
        return _top(_summed(products, found, self._page, self._count), count)


class FaissPQ(_Faiss):
    """FAISS, product quantisation in 4 bits, fast scan."""

    factory: ClassVar = "PQ64x4fs"


class FaissSQ8(_Faiss):
    """FAISS, 8 bits a component."""

    factory: ClassVar = "SQ8"


class PooledScan:
    """Exact scores of pages whose neighbouring vectors were joined, 8 into one."""

    needs: ClassVar = ()
    named: ClassVar = "pooled x"

    def __init__(self, bank: Bank, folder: Path) -> None:
        self._bank = make_bank([unit_means(bank.page(n)) for n in range(bank.num_pages)], bank.dim)
        self.megabytes = self._bank.vectors.nbytes / 1e6

    def search(self, query: np.ndarray, setting: int, count: int) -> np.ndarray:
        return _top(page_scores(self._bank, [query])[0], count)


class PooledUsearch:
    """A graph of the pooled vectors, by usearch."""

    needs: ClassVar = ("usearch",)
    named: ClassVar = "pooled x8, k"

    def __init__(self, bank: Bank, folder: Path) -> None:
        from usearch.index import Index

        pooled = make_bank([unit_means(bank.page(n)) for n in range(bank.num_pages)], bank.dim)
        self._page, self._count = _pages_of(pooled), bank.num_pages
        self._index: Any = Index(
            ndim=bank.dim, metric="ip", dtype="bf16", connectivity=16, expansion_add=64, expansion_search=128
        )
        rows = pooled.rows(np.arange(len(pooled.vectors)))
        self._index.add(np.arange(len(rows)), rows, threads=1)
        path = folder / "engine.usearch"
        self._index.save(str(path))
        self.megabytes = path.stat().st_size / 1e6
        path.unlink()

    def search(self, query: np.ndarray, setting: int, count: int) -> np.ndarray:
        found = self._index.search(query, setting, threads=1)
        sums = _summed(-found.distances, found.keys.astype(np.int64), self._page, self._count)
        return _top(sums, count)


class LanceDB:
    """The multi-vector index of LanceDB, IVF and product quantisation; keeps the vectors itself."""

    needs: ClassVar = ("lancedb",)
    named: ClassVar = "nprobes"

    def __init__(self, bank: Bank, folder: Path) -> None:
        import lancedb
        import pyarrow as pa

        path = folder / "lance"
        shutil.rmtree(path, ignore_errors=True)
        vector = pa.list_(pa.list_(pa.float32(), bank.dim))
        schema = pa.schema([("page", pa.int64()), ("vector", vector)])

        def batches() -> Any:
            for start in range(0, bank.num_pages, 500):
                rows = [bank.page(n).tolist() for n in range(start, min(start + 500, bank.num_pages))]
                numbers = pa.array(range(start, start + len(rows)), pa.int64())
                yield pa.record_batch([numbers, pa.array(rows, vector)], schema=schema)

        self._table = lancedb.connect(str(path)).create_table("pages", data=batches(), schema=schema)
        self._table.create_index(
            metric="cosine",
            vector_column_name="vector",
            index_type="IVF_PQ",
            num_partitions=512,
            num_sub_vectors=32,
        )
        self.megabytes = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) / 1e6

    def search(self, query: np.ndarray, setting: int, count: int) -> np.ndarray:
        asked = self._table.search(query, vector_column_name="vector").metric("cosine").nprobes(setting)
        return asked.select(["page", "_distance"]).limit(count).to_arrow()["page"].to_numpy()


ENGINES: dict[str, tuple[type[Engine], tuple[int, ...]]] = {
    "clusters": (ClusterLists, (16, 32, 64)),
    "faiss-pq": (FaissPQ, (8, 16, 32)),
    "faiss-sq8": (FaissSQ8, (8, 16)),
    "pooled-scan": (PooledScan, (8,)),
    "usearch": (PooledUsearch, (128, 256)),
    "lancedb": (LanceDB, (8, 16)),
}
"""Each with the settings that are tried."""


def unit_means(page: np.ndarray, factor: int = 8) -> np.ndarray:
    """Means of runs of about `factor` vectors, of length 1."""
    runs = np.array_split(page, max(1, round(len(page) / factor)))
    means = np.stack([run.mean(0) for run in runs])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def _summed(products: np.ndarray, found: np.ndarray, page: np.ndarray, pages: int) -> np.ndarray:
    """For each page the sum over a query's vectors of the best product that was found, above the worst."""
    sums, best = np.zeros(pages, np.float32), np.zeros(pages, np.float32)
    for row, numbers in zip(products, found, strict=True):
        known = np.flatnonzero(numbers >= 0)
        order = known[np.argsort(row[known])]
        best.fill(0)
        # the best one last: it stays
        best[page[numbers[order]]] = row[order] - row[order[0]]
        sums += best
    return sums


def _top(sums: np.ndarray, count: int) -> np.ndarray:
    return np.argpartition(-sums, count)[:count]


def _pages_of(bank: Bank) -> np.ndarray:
    return np.repeat(np.arange(bank.num_pages), np.diff(bank.offsets))


def _blocks(bank: Bank) -> Any:
    total = len(bank.vectors)
    return (bank.rows(np.arange(start, min(start + _BLOCK, total))) for start in range(0, total, _BLOCK))
