"""Scores of pages by late interaction, exact for pages of different lengths.

A page's score is `sum over query vectors of max over page vectors of their dot product` (ColBERT, Khattab and
Zaharia 2020, eq. 3), of the vectors as they are stored and of the query's rounded to bfloat16; products are
summed in float32. Nothing is padded and nothing is clipped: scores may be negative. The same formula is the
dot product of dense retrieval where query and page have one vector each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from docagent_rl.retrieval.base import best_rows
from docagent_rl.retrieval.vectors.bank import Bank

if TYPE_CHECKING:
    import torch

NO_SCORE = -np.inf
"""The score of a page without vectors, which is never a hit."""

_BLOCK = 8192
_TOLERANCE = 1e-5

logger = logging.getLogger(__name__)
Dots = Callable[[int, int], np.ndarray]
"""From the first row and the one behind the last to their products, float32 (rows, t)."""


class Engine(StrEnum):
    """Libraries that multiply on the CPU."""

    NUMKONG = "numkong"
    """The kernels for bfloat16 of the package numkong, where this processor has them. A row's products do not
    depend on the rows beside it, to the last bit."""
    TORCH = "torch"
    """Matrix products of torch in float32. Which rows are multiplied at a time may change the last bits."""


def round_query(query: np.ndarray) -> torch.Tensor:
    """Return the vectors of a query in the precision of products: bfloat16, shape (t, dim), t >= 1.

    Raises:
        ValueError: it has no vectors, or some are not finite.
    """
    import torch

    if query.ndim != 2 or not len(query) or not np.isfinite(query).all():
        raise ValueError(f"a query's vectors are finite, of shape (t, dim): got {query.shape}")
    return torch.from_numpy(np.array(query, np.float32)).to(torch.bfloat16)


def rounded(vectors: np.ndarray) -> np.ndarray:
    """Return vectors, float32 of shape (n, dim), rounded to the numbers that bfloat16 has."""
    return round_query(vectors).float().numpy()


def page_scores(
    bank: Bank,
    queries: Sequence[np.ndarray],
    first: int = 0,
    last: int | None = None,
    *,
    engine: Engine | None = None,
) -> np.ndarray:
    """Return scores of the consecutive pages `first` to `last` (0-based, one behind the last; by default
    all).

    With `Engine.NUMKONG`, the default where it is right on this processor, a score is the same to the last
    bit whichever pages and queries are scored with it.

    Returns:
        float32 of shape (queries, last - first); `NO_SCORE` for pages without vectors.

    Raises:
        ValueError: a query is empty, not finite, or of another shape than (t, dim).
    """
    last = bank.num_pages if last is None else last
    rows = [checked_query(query, bank) for query in queries]
    scores = np.full((len(queries), last - first), NO_SCORE, np.float32)
    dots = [dots_of(bank, query, engine or default_engine()) for query in rows]
    for start, end in bank.blocks(first, last, _BLOCK):
        offsets = bank.offsets[start : end + 1]
        filled = np.flatnonzero(np.diff(offsets))
        if len(filled):
            # pages without vectors take no rows
            offsets = np.append(offsets[filled], offsets[-1])
            for number, multiply in enumerate(dots):
                products = multiply(int(offsets[0]), int(offsets[-1]))
                maxima = np.maximum.reduceat(products, offsets[:-1] - offsets[0], axis=0)
                scores[number, filled + (start - first)] = np.add.reduce(np.ascontiguousarray(maxima), axis=1)
    return scores


def rank_rows(scores: np.ndarray, top_k: int) -> np.ndarray:
    """Return the rows with the highest scores, positive or not; `NO_SCORE` is never among them. See
    `best_rows`.
    """
    return best_rows(scores, np.flatnonzero(scores > NO_SCORE), top_k)


def checked_query(query: np.ndarray, bank: Bank) -> torch.Tensor:
    """Return the vectors of a query as `round_query` does, if they fit those of the pages.

    Raises:
        ValueError: they do not, or are none.
    """
    if query.ndim == 2 and query.shape[1] != bank.dim:
        raise ValueError(f"the query's vectors have {query.shape[1]} dimensions, the pages' {bank.dim}")
    return round_query(query)


@cache
def default_engine() -> Engine:
    """numkong, unless it is absent or does not count right on this processor; tried once a process."""
    try:
        error = _error(Engine.NUMKONG)
    except Exception as problem:  # whatever a package of compiled code raises where it does not fit
        logger.warning("numkong cannot be used (%s): torch multiplies vectors, about half as fast", problem)
        return Engine.TORCH
    if error > _TOLERANCE:
        logger.warning(
            "numkong is wrong by %.1e on this processor: torch multiplies vectors, about half as fast", error
        )
        return Engine.TORCH
    return Engine.NUMKONG


def dots_of(bank: Bank, query: torch.Tensor, engine: Engine) -> Dots:
    """Return the function that multiplies rows of a bank with the vectors of a query, bfloat16 of shape (t,
    dim).
    """
    vectors = bank.vectors
    if engine is Engine.TORCH:
        columns = query.float().T.contiguous()
        return lambda start, end: (vectors[start:end].float() @ columns).numpy()
    import numkong

    packed: Any = numkong.dots_pack(numkong.from_dlpack(query.contiguous()))
    rows, multiply = cast(Any, numkong.from_dlpack(vectors)), numkong.dots_packed
    return lambda start, end: np.asarray(multiply(rows[start:end], packed))


def _error(engine: Engine) -> float:
    """Return an engine's error for vectors of length about 1; infinite if rows depend on each other."""
    import torch

    rng = np.random.default_rng(0)
    worst = 0.0
    for dim, count, asked in ((128, 67, 20), (384, 33, 1), (40, 5, 3)):
        rows, query = (
            torch.from_numpy(rng.standard_normal((n, dim)) / dim**0.5).to(torch.bfloat16)
            for n in (count, asked)
        )
        dots = dots_of(Bank(rows, np.array([0, count])), query, engine)
        found = dots(0, count)
        want = (rows.double() @ query.double().T).numpy()
        worst = max(worst, float(np.abs(found - want).max()))
        alone = np.concatenate([dots(i, i + 1) for i in range(count)])
        if engine is Engine.NUMKONG and not np.array_equal(alone, found):
            return float("inf")
    return worst
