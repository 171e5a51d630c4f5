"""Compression of indexes: fewer vectors per page, and fewer bytes per vector."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from pydantic import BaseModel, ConfigDict, Field


class Precision(StrEnum):
    """Number formats of stored vectors."""

    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    """Integers from -127 to 127, and a scale for each vector."""
    BINARY = "binary"
    """Signs, by which candidates are found, and bfloat16, which is read only to score these."""

    @property
    def stored(self) -> Precision:
        """Number format of the whole vectors."""
        return Precision.BFLOAT16 if self is Precision.BINARY else self


class VectorForm(BaseModel):
    """The form in which an index stores the vectors of an encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pooled: int = Field(1, ge=1)
    """Average number of a page's vectors that are pooled into one (`pool`)."""
    precision: Precision = Precision.BFLOAT16


def pool(vectors: np.ndarray, factor: int) -> np.ndarray:
    """Pool similar vectors: float32 (n, dim) becomes (m, dim), m <= n.

    Hierarchical token pooling (Clavié et al. 2024, "Reducing the footprint of multi-vector
    retrieval with minimal performance impact via token pooling"; ColPali, Faysse et al., ICLR 2025,
    section 5.2): the means of Ward's clusters of the rows of `1 - cosine`, at most n / factor of
    them, as in colpali-engine's `HierarchicalTokenPooler`. Vectors and means have length 1.
    """
    if factor == 1 or len(vectors) < 2:
        return vectors
    from scipy.cluster.hierarchy import fcluster, linkage

    distances = 1 - vectors @ vectors.T
    most = max(len(vectors) // factor, 1)
    clusters = fcluster(
        linkage(distances, metric="euclidean", method="ward"), t=most, criterion="maxclust"
    )
    sums = np.zeros((clusters.max(), vectors.shape[1]), np.float32)
    np.add.at(sums, clusters - 1, vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return sums / np.maximum(lengths, np.finfo(np.float32).tiny)


def pooled(pages: Sequence[np.ndarray], factor: int) -> list[np.ndarray]:
    """Return the vectors of pages, pooled within each page."""
    return [pool(page, factor) for page in pages]


def quantised(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantise vectors, float32 (n, dim), to int8; return also their scales, float32 (n,)."""
    scales = np.abs(vectors).max(1, initial=0).astype(np.float32) / 127
    numbers = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None])
    return numbers.astype(np.int8), scales
