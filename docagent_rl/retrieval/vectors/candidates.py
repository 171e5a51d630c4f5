"""The first stage of a search over many pages: it finds those that are worth exact scores.

Vectors of all pages are clustered; a page is in the list of a cluster when one of its vectors is. For each
vector of a query the clusters most like it are looked up, and a page counts with the best of those that it is
in (centroid interaction of PLAID, Santhanam et al. 2022, section 4.2, without its later stages); a page that
is in none counts with the worst. The sums are upper and lower by what the clusters are wide, so the best of
them are scored exactly afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docagent_rl.retrieval.vectors.bank import Bank

if TYPE_CHECKING:
    import faiss

PROBES = 32
"""Clusters that are looked up for a vector of a query."""
_READ = 1 << 17
_TOP = 128
_TOP_PROBES = 12
_MOST = 1 << 16
_SAMPLE = 24
_TOP_SAMPLE = 256
_ASSIGNED = 1 << 16


@dataclass(frozen=True, slots=True)
class Candidates:
    """The lists of pages.

    Args:
        clusters: their centres.
        starts: int64 of shape (clusters + 1,): cluster i has the pages from starts[i] to starts[i + 1].
        pages: int32: rows of the index, rising within a cluster.
        rows: of the index.
    """

    clusters: Clusters
    starts: np.ndarray
    pages: np.ndarray
    rows: int

    @classmethod
    def make(cls, bank: Bank, clusters: Clusters) -> Candidates:
        """List the pages of each cluster."""
        codes = np.zeros(len(bank.vectors), np.int64)
        for start in range(0, len(codes), _READ):
            rows = np.arange(start, min(start + _READ, len(codes)))
            codes[rows] = clusters.assign(bank.rows(rows))
        pages = np.repeat(np.arange(bank.num_pages), np.diff(bank.offsets))
        # each page once in a cluster
        keys = np.unique(codes * bank.num_pages + pages)
        starts = np.searchsorted(keys, np.arange(len(clusters) + 1, dtype=np.int64) * bank.num_pages)
        listed = (keys % bank.num_pages).astype(np.int32)
        return cls(clusters, starts.astype(np.int64), listed, bank.num_pages)

    def save(self, folder: Path) -> None:
        """Write the arrays to a folder, for `open`."""
        arrays = {"centroids": self.clusters.centres, "starts": self.starts, "pages": self.pages}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)

    @classmethod
    def open(cls, folder: Path, rows: int) -> Candidates:
        """Read the lists that `save` wrote.

        Raises:
            OSError, ValueError: a file is missing, or is no array.
        """
        centroids, starts, pages = (
            np.load(folder / f"{name}.npy") for name in ("centroids", "starts", "pages")
        )
        return cls(Clusters(centroids), starts, pages, rows)

    def sums(self, query: np.ndarray, probes: int = PROBES) -> np.ndarray:
        """Return the scores of pages by their clusters, but for a number that all pages share.

        `query` is float32 of shape (t, dim); the scores are float32 of shape (rows,), from 0.
        """
        similar, found = self.clusters.nearest(query, probes)
        sums, best = np.zeros(self.rows, np.float32), np.zeros(self.rows, np.float32)
        starts = self.starts
        for products, clusters in zip(similar, found, strict=True):
            known = np.flatnonzero(clusters >= 0)[::-1]
            if not len(known):
                continue
            # the worst first: where a page is in several, what is written last stays
            worst_first = clusters[known]
            gains = products[known] - products[known[0]]
            lists = [self.pages[starts[cluster] : starts[cluster + 1]] for cluster in worst_first.tolist()]
            best.fill(0)
            best[np.concatenate(lists)] = np.repeat(gains, starts[worst_first + 1] - starts[worst_first])
            sums += best
        return sums


def train_clusters(bank: Bank) -> Clusters:
    """Return clusters of the vectors of a bank; equal banks give equal ones."""
    total = len(bank.vectors)
    count = cluster_count(total)
    size = min(total, count * _SAMPLE)
    chosen = np.sort(np.random.default_rng(0).choice(total, size, replace=False))
    return Clusters(train(bank.rows(chosen)[np.random.default_rng(1).permutation(size)], count))


def cluster_count(vectors: int) -> int:
    """Return the power of two next to 8 times the root of the number of vectors, from 16 to 65,536."""
    return int(min(_MOST, max(16, 2 ** round(np.log2(8 * max(vectors, 1) ** 0.5)))))


class Clusters:
    """Centres of clusters, float32 of shape (clusters, dim), of length 1.

    The centres most like a vector are found through some hundred of their own centres, so a few may be
    missed.
    """

    def __init__(self, centres: np.ndarray) -> None:
        import faiss

        self.centres = np.ascontiguousarray(centres, np.float32)
        dim = centres.shape[1]
        tops = min(_TOP, max(1, len(centres) // 8))
        self._coarse = faiss.IndexFlatIP(dim)
        self._coarse.add(_kmeans(self.centres, tops, rounds=8))
        self._index: faiss.IndexIVFFlat = faiss.IndexIVFFlat(
            self._coarse, dim, tops, faiss.METRIC_INNER_PRODUCT
        )
        self._index.is_trained = True
        self._index.add(self.centres)
        self._index.nprobe = min(tops, _TOP_PROBES)

    def __len__(self) -> int:
        return len(self.centres)

    def nearest(self, vectors: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the `count` centres most like each vector (float32 (n, dim)), the best first.

        Returns:
            Their products with the vector, float32 (n, count), and their numbers, int64 (n, count); -1 where
            fewer were found.
        """
        _one_thread()
        return self._index.search(np.ascontiguousarray(vectors, np.float32), count)

    def assign(self, vectors: np.ndarray) -> np.ndarray:
        """Return the number of the centre most like each vector, uint16."""
        parts = [
            self.nearest(vectors[start : start + _ASSIGNED], 1)[1][:, 0]
            for start in range(0, len(vectors), _ASSIGNED)
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts]).clip(0).astype("<u2")


def train(sample: np.ndarray, clusters: int) -> np.ndarray:
    """Find about so many centres of clusters: of a few large ones, then within each its share.

    `sample` is float32 of shape (n, dim), centres float32 of shape (m, dim), length 1; equal samples give
    equal centres.
    """
    import faiss

    tops = _kmeans(sample[: _TOP * _TOP_SAMPLE], min(_TOP, clusters, len(sample)), rounds=8)
    index = faiss.IndexFlatIP(sample.shape[1])
    index.add(tops)
    _, owner = index.search(sample, 1)
    parts = []
    for top in range(len(tops)):
        members = sample[owner[:, 0] == top]
        if len(members):
            share = max(1, round(clusters * len(members) / len(sample)))
            parts.append(_kmeans(members, min(share, len(members)), rounds=6))
    return np.concatenate(parts)[:_MOST]


def _kmeans(vectors: np.ndarray, clusters: int, rounds: int) -> np.ndarray:
    import faiss

    _one_thread()
    if clusters >= len(vectors):
        return np.ascontiguousarray(vectors, np.float32)
    means = faiss.Kmeans(
        vectors.shape[1],
        clusters,
        niter=rounds,
        spherical=True,
        seed=1,
        min_points_per_centroid=1,
        max_points_per_centroid=_TOP_SAMPLE,
    )
    means.train(np.ascontiguousarray(vectors, np.float32))
    return np.asarray(means.centroids, np.float32)


def _one_thread() -> None:
    """Let faiss use one thread for the calling one: threads wait for each other where processes share
    processors.
    """
    import faiss

    faiss.omp_set_num_threads(1)
