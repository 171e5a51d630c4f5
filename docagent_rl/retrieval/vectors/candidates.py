"""The first stage of a search over many pages: which are worth exact scores.

Vectors of all pages are clustered; a page is in the list of a cluster when one of its vectors is. For each
vector of a query the clusters most like it are looked up, and a page counts with the best of those that it is
in (centroid interaction of PLAID, Santhanam et al. 2022, section 4.2, without its later stages); a page that
is in none counts with the worst. The sums are upper and lower by what the clusters are wide, so the best of
them are scored exactly afterwards.

```
candidates-<16 hex>/    named by the hash of its header
    candidates.json     what it belongs to, and the SHA-256 of each file; carries its own checksum
    centroids.bin       float32, (clusters, dim)
    starts.bin          int64: cluster i has the pages from starts[i] to starts[i + 1]
    pages.bin           int32: rows of the index, rising within a cluster
    shard-<16 hex>.bin  uint16: the cluster of each vector of a shard, kept for additions
```
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from docagent_rl.retrieval.vectors.clusters import Clusters

PROBES = 32
"""Clusters that are looked up for a vector of a query."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The lists of pages.

    Args:
        clusters: their centres.
        starts: int64 of shape (clusters + 1,).
        pages: int32: rows of the index.
        rows: of the index.
    """

    clusters: Clusters
    starts: np.ndarray
    pages: np.ndarray
    rows: int

    def sums(self, query: np.ndarray, probes: int = PROBES) -> np.ndarray:
        """What the clusters tell of a page's score for a query, but for a number that all pages share.

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


def lists_of(codes: np.ndarray, rows: np.ndarray, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """The pages of each cluster.

    Args:
        codes: the cluster of each vector.
        rows: its page, a row of the index; -1: of a page that is in the index no more.
        clusters: how many.

    Returns:
        `starts` and `pages` of `Candidates`.
    """
    kept = rows >= 0
    width = np.int64(rows.max(initial=0) + 1)
    keys = np.unique(codes[kept].astype(np.int64) * width + rows[kept])
    starts = np.searchsorted(keys, np.arange(clusters + 1, dtype=np.int64) * width)
    return starts.astype("<i8"), (keys % width).astype("<i4")
