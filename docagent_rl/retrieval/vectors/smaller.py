"""Fewer vectors of a page, and fewer bytes of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
from pydantic import BaseModel, ConfigDict, Field


class Precision(StrEnum):
    """The numbers of a stored vector."""

    BFLOAT16 = "bfloat16"
    INT8 = "int8"
    """Whole numbers from -127 to 127, and a scale for each vector."""
    BINARY = "binary"
    """Signs, which find candidates, and bfloat16 that is read for these alone and scores them."""

    @property
    def stored(self) -> Precision:
        """The numbers of the whole vectors."""
        return Precision.BFLOAT16 if self is Precision.BINARY else self


class VectorForm(BaseModel):
    """The form in which an index holds the vectors of an encoder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pooled: int = Field(1, ge=1)
    """Vectors of a page for one that is stored, on average (`pool`)."""
    precision: Precision = Precision.BFLOAT16


def pool(vectors: np.ndarray, factor: int) -> np.ndarray:
    """Return means of vectors that are alike, of length 1: float32 (n, dim) becomes (m, dim), m <=
    n.

    Hierarchical token pooling (Clavié et al. 2024, "Reducing the footprint of multi-vector
    retrieval with minimal performance impact via token pooling"; ColPali, Faysse et al., ICLR 2025,
    section 5.2): Ward's clusters of the rows of `1 - cosine`, at most n / factor of them, as
    colpali-engine's `HierarchicalTokenPooler` makes them. Vectors have length 1.
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
    """Return the vectors of pages, each page's pooled."""
    return [pool(page, factor) for page in pages]


def quantised(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors, float32 (n, dim), as int8, and the scales that they are multiplied by,
    float32 (n,).
    """
    scales = np.abs(vectors).max(1, initial=0).astype(np.float32) / 127
    numbers = np.rint(vectors / np.where(scales > 0, scales, 1)[:, None])
    return numbers.astype(np.int8), scales
