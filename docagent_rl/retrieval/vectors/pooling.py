"""Fewer vectors a page: similar ones are joined."""

from __future__ import annotations

import numpy as np


def pooled(vectors: np.ndarray, factor: int) -> np.ndarray:
    """The means of clusters of similar vectors, brought to length 1.

    Ward's hierarchy of the vectors, cut where max(n // factor, 1) clusters are left (hierarchical token
    pooling: Clavié et al., "Reducing the Footprint of Multi-Vector Retrieval with Minimal Performance Impact
    via Token Pooling", 2024; colpali-engine clusters the rows of the matrix of distances instead).

    Args:
        vectors: float32 of shape (n, dim), n >= 0.
        factor: from 1; 1 changes nothing.

    Returns:
        float32 of shape (m, dim), in the order in which clusters first occur.
    """
    if factor == 1 or len(vectors) < 2:
        return vectors
    from scipy.cluster.hierarchy import fcluster, linkage

    clusters = max(len(vectors) // factor, 1)
    labels = fcluster(linkage(vectors, method="ward"), t=clusters, criterion="maxclust")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    order = np.argsort(first)
    sums = np.zeros((len(first), vectors.shape[1]), np.float64)
    np.add.at(sums, inverse, vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1))[order].astype(np.float32)
