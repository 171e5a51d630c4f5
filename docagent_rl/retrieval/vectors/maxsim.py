"""Scores of pages by late interaction, exact for pages of different lengths.

A page's score is `sum over query vectors of max over page vectors of their dot product` (ColBERT, Khattab and
Zaharia 2020, eq. 3), of the vectors as they are stored and of the query's rounded to bfloat16; products are
summed in float32. Nothing is padded and nothing is clipped: scores may be negative. The same formula is the
dot product of dense retrieval where query and page have one vector each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from docagent_rl.retrieval.vectors.bank import Bank

if TYPE_CHECKING:
    import torch

NO_SCORE = -np.inf
"""The score of a page without vectors, which is never a hit."""

_ON_CPU, _ON_GPU = 8192, 1 << 19
"""Vectors multiplied at a time: in float32 they fit a cache, and take 256 MB of a GPU at 128 dimensions."""


def rounded(vectors: np.ndarray) -> np.ndarray:
    """Return vectors, float32 of shape (n, dim), rounded to the numbers that bfloat16 has."""
    import torch

    return torch.from_numpy(np.array(vectors, np.float32)).to(torch.bfloat16).float().numpy()


def page_scores(
    bank: Bank, queries: Sequence[np.ndarray], first: int = 0, last: int | None = None
) -> np.ndarray:
    """Return scores of the consecutive pages `first` to `last` (0-based, one behind the last; by default
    all), computed where the vectors of the bank are.

    A score is the same to the last bit whichever queries are scored with it.

    Returns:
        float32 of shape (queries, last - first); `NO_SCORE` for pages without vectors.

    Raises:
        ValueError: a query is empty, not finite, or of another shape than (t, dim).
    """
    import torch

    last = bank.num_pages if last is None else last
    device = bank.vectors.device
    columns = [_columns(query, bank.dim).to(device) for query in queries]
    scores = torch.empty(len(queries), last - first, device=device)
    for start, end in bank.blocks(first, last, _ON_CPU if device.type == "cpu" else _ON_GPU):
        block = bank.vectors[int(bank.offsets[start]) : int(bank.offsets[end])].float()
        lengths = torch.from_numpy(np.diff(bank.offsets[start : end + 1])).to(device)
        for row, query in zip(scores, columns, strict=True):
            # of a page without vectors -inf, which is `NO_SCORE`
            maxima = torch.segment_reduce(block @ query, "max", lengths=lengths)  # ty: ignore[missing-attribute]
            row[start - first : end - first] = maxima.sum(1)
    return scores.cpu().numpy()


def _columns(query: np.ndarray, dim: int) -> torch.Tensor:
    """Return a query's vectors as they are multiplied, shape (dim, t)."""
    import torch

    if query.ndim != 2 or not len(query) or query.shape[1] != dim or not np.isfinite(query).all():
        raise ValueError(f"a query's vectors are finite, of shape (t, {dim}): got {query.shape}")
    return torch.from_numpy(rounded(query)).T.contiguous()
