"""The first stage of a search over many pages: which are worth exact scores.

Vectors of all pages are clustered; a page is in the list of a cluster when one of its vectors is. For each
vector of a query the clusters most like it are looked up, and a page counts with the best of those that it is
in (centroid interaction of PLAID, Santhanam et al. 2022, section 4.2, without its later stages); a page that
is in none counts with the worst. The sums are upper and lower by what the clusters are wide, so the best of
them are scored exactly afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docagent_rl.retrieval.vectors.bank import Bank
from docagent_rl.retrieval.vectors.clusters import Clusters, cluster_count, sample_size, train

PROBES = 32
"""Clusters that are looked up for a vector of a query."""
_READ = 1 << 17


@dataclass(frozen=True, slots=True)
class Candidates:
    """The lists of pages.

    Args:
        clusters: their centres.
        codes: uint16: the cluster of each vector.
        starts: int64 of shape (clusters + 1,): cluster i has the pages from starts[i] to starts[i + 1].
        pages: int32: rows of the index, rising within a cluster.
        rows: of the index.
    """

    clusters: Clusters
    codes: np.ndarray
    starts: np.ndarray
    pages: np.ndarray
    rows: int

    @classmethod
    def make(cls, bank: Bank, clusters: Clusters, known: np.ndarray | None = None) -> Candidates:
        """List the pages of each cluster.

        Args:
            bank: vectors of all pages.
            clusters: of these vectors.
            known: int64: the cluster of each vector where it is known, -1 elsewhere.
        """
        codes = np.full(len(bank.vectors), -1, np.int64) if known is None else known
        missing = np.flatnonzero(codes < 0)
        for start in range(0, len(missing), _READ):
            rows = missing[start : start + _READ]
            codes[rows] = clusters.assigned(bank.rows(rows))
        pages = np.repeat(np.arange(bank.num_pages), np.diff(bank.offsets))
        # each page once in a cluster
        keys = np.unique(codes * bank.num_pages + pages)
        starts = np.searchsorted(keys, np.arange(len(clusters) + 1, dtype=np.int64) * bank.num_pages)
        listed = (keys % bank.num_pages).astype(np.int32)
        return cls(clusters, codes.astype(np.uint16), starts.astype(np.int64), listed, bank.num_pages)

    def save(self, folder: Path) -> None:
        """Write the arrays to a folder, for `open`."""
        arrays = {"centroids": self.clusters.centres, "codes": self.codes}
        for name, array in {**arrays, "starts": self.starts, "pages": self.pages}.items():
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
        codes = np.load(folder / "codes.npy", mmap_mode="r")
        return cls(Clusters(centroids), codes, starts, pages, rows)

    def sums(self, query: np.ndarray, probes: int = PROBES) -> np.ndarray:
        """Return what the clusters tell of a page's score for a query, but for a number that all pages share.

        Args:
            query: float32 of shape (t, dim).
            probes: clusters that are looked up for each of its vectors.

        Returns:
            float32 of shape (rows,), from 0.
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
    wanted = min(total, sample_size(count))
    chosen = np.sort(np.random.default_rng(0).choice(total, wanted, replace=False))
    return Clusters(train(bank.rows(chosen)[np.random.default_rng(1).permutation(wanted)], count))
