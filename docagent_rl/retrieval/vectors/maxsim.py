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

from docagent_rl.retrieval.base import best_rows
from docagent_rl.retrieval.vectors.bank import Bank
from docagent_rl.retrieval.vectors.dots import Dots, Engine, default_engine, dots_of

if TYPE_CHECKING:
    import torch

NO_SCORE = -np.inf
"""Of a page without vectors, which is never a hit."""

_BLOCK = 8192


def rounded(query: np.ndarray) -> torch.Tensor:
    """Return the vectors of a query as they are multiplied: bfloat16, shape (t, dim), t >= 1.

    Raises:
        ValueError: it has no vectors, or some are not finite.
    """
    import torch

    if query.ndim != 2 or not len(query) or not np.isfinite(query).all():
        raise ValueError(f"a query's vectors are finite, of shape (t, dim): got {query.shape}")
    return torch.from_numpy(np.array(query, np.float32)).to(torch.bfloat16)


def page_scores(
    bank: Bank,
    queries: Sequence[np.ndarray],
    first: int = 0,
    last: int | None = None,
    *,
    engine: Engine | None = None,
) -> np.ndarray:
    """Return scores of the consecutive pages `first` to `last` (one behind the last).

    With `Engine.NUMKONG` a score is the same to the last bit whichever pages and queries are scored with it.

    Args:
        bank: of the pages.
        queries: float32 of shape (t, dim) each.
        first: 0-based.
        last: by default that of the bank.
        engine: by default the fastest that is right on this processor.

    Returns:
        float32 of shape (queries, last - first); `NO_SCORE` for pages without vectors.

    Raises:
        ValueError: a query is empty, not finite, or of another dim.
    """
    last = bank.num_pages if last is None else last
    rows = [_checked(query, bank) for query in queries]
    scores = np.full((len(queries), last - first), NO_SCORE, np.float32)
    dots = [dots_of(bank, query, engine or default_engine()) for query in rows]
    for start, end in bank.blocks(first, last, _BLOCK):
        filled, offsets = _filled(bank.offsets[start : end + 1])
        if len(filled):
            where = filled + (start - first)
            for number, multiply in enumerate(dots):
                scores[number, where] = _sums(_maxima(multiply, offsets))
    return scores


def scattered_scores(
    bank: Bank, query: np.ndarray, pages: np.ndarray, *, engine: Engine | None = None
) -> np.ndarray:
    """Return scores of some pages: those of `page_scores`.

    Args:
        bank: of the pages.
        query: float32 of shape (t, dim).
        pages: their numbers, 0-based, int64.
        engine: see `page_scores`.

    Returns:
        float32, a score a page, in the order given.
    """
    multiply = dots_of(bank, _checked(query, bank), engine or default_engine())
    starts, ends = bank.offsets[pages].tolist(), bank.offsets[pages + 1].tolist()
    maxima = np.full((len(pages), len(query)), NO_SCORE, np.float32)
    for row, (start, end) in enumerate(zip(starts, ends, strict=True)):
        if start < end:
            np.maximum.reduce(multiply(start, end), axis=0, out=maxima[row])
    return _sums(maxima)


def ranked(scores: np.ndarray, top_k: int) -> np.ndarray:
    """Return the rows with the highest scores, positive or not; `NO_SCORE` is never among them.

    Returns:
        Rows by descending score, equal scores by ascending row; shape (m,) with m <= top_k.
    """
    return best_rows(scores, np.flatnonzero(scores > NO_SCORE), top_k)


def _checked(query: np.ndarray, bank: Bank) -> torch.Tensor:
    if query.ndim == 2 and query.shape[1] != bank.dim:
        raise ValueError(f"the query's vectors have {query.shape[1]} dimensions, the pages' {bank.dim}")
    return rounded(query)


def _filled(offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pages that have vectors, and their offsets: those without take no rows."""
    filled = np.flatnonzero(np.diff(offsets))
    return filled, np.append(offsets[filled], offsets[-1])


def _maxima(multiply: Dots, offsets: np.ndarray) -> np.ndarray:
    products = multiply(int(offsets[0]), int(offsets[-1]))
    return np.maximum.reduceat(products, offsets[:-1] - offsets[0], axis=0)


def _sums(maxima: np.ndarray) -> np.ndarray:
    """Return sums of rows, each in the same order whatever the number of rows."""
    return np.add.reduce(np.ascontiguousarray(maxima), axis=1)
