"""Clusters of vectors: their centres, and which is most like a vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import faiss

_TOP = 128
_TOP_PROBES = 12
_MOST = 1 << 16
_SAMPLE = 24
_TOP_SAMPLE = 256
_ASSIGNED = 1 << 16


def cluster_count(vectors: int) -> int:
    """Return the power of two next to 8 times the root of the number of vectors, from 16 to 65,536."""
    return int(min(_MOST, max(16, 2 ** round(np.log2(8 * max(vectors, 1) ** 0.5)))))


class Clusters:
    """Centres of clusters, of length 1, and which is most like a vector.

    Centres are found through some hundred of their own centres, so a few of the most alike may be missed.

    Args:
        centres: float32 of shape (clusters, dim).
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
        """Return the centres most like each vector, the best first.

        Args:
            vectors: float32 of shape (n, dim).
            count: of centres for a vector.

        Returns:
            Their products with the vector, float32 (n, count), and their numbers, int64 (n, count); -1 where
            fewer were found.
        """
        _one_thread()
        return self._index.search(np.ascontiguousarray(vectors, np.float32), count)

    def assigned(self, vectors: np.ndarray) -> np.ndarray:
        """Return the number of the centre most like each vector, uint16."""
        parts = [
            self.nearest(vectors[start : start + _ASSIGNED], 1)[1][:, 0]
            for start in range(0, len(vectors), _ASSIGNED)
        ]
        return np.concatenate([np.zeros(0, np.int64), *parts]).clip(0).astype("<u2")


def train(sample: np.ndarray, clusters: int) -> np.ndarray:
    """Find centres of clusters: of a few large ones, then within each as many as its share calls for.

    Args:
        sample: float32 of shape (n, dim); the same gives the same centres.
        clusters: how many, about.

    Returns:
        float32 of shape (m, dim), length 1.
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


def sample_size(clusters: int) -> int:
    """Return vectors to train on."""
    return clusters * _SAMPLE


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
    """Faiss: threads wait for each other where processes share processors. For the calling thread."""
    import faiss

    faiss.omp_set_num_threads(1)
