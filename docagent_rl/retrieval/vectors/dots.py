"""Dot products of stored vectors with those of a query, summed in float32."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from docagent_rl.retrieval.vectors.bank import Bank

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

Dots = Callable[[int, int], np.ndarray]
"""From the first row and the one behind the last to their products, float32 (rows, t)."""

_TOLERANCE = 1e-5


class Engine(StrEnum):
    """What multiplies on the CPU."""

    NUMKONG = "numkong"
    """The kernels for bfloat16 of the package numkong, where this processor has them. A row's products do not
    depend on the rows beside it, to the last bit."""
    TORCH = "torch"
    """Matrix products of torch in float32. Which rows are multiplied at a time may change the last bits."""


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
    """Return the function that multiplies rows of a bank with the vectors of a query.

    Args:
        bank: of the pages.
        query: bfloat16 of shape (t, dim).
        engine: what multiplies.
    """
    multiply = _numkong(query, bank.vectors) if engine is Engine.NUMKONG else _torch(query, bank.vectors)
    scales = bank.scales
    if scales is None:
        return multiply
    return lambda start, end: multiply(start, end) * scales[start:end, None]


def _numkong(query: torch.Tensor, vectors: torch.Tensor) -> Dots:
    import numkong
    import torch

    packed: Any = numkong.dots_pack(numkong.from_dlpack(query.contiguous()))
    from_dlpack, dots_packed = numkong.from_dlpack, numkong.dots_packed
    if vectors.dtype is not torch.bfloat16:
        # the whole numbers up to 127 have a place in bfloat16, so nothing is lost
        return lambda start, end: np.asarray(
            dots_packed(from_dlpack(vectors[start:end].to(torch.bfloat16)), packed)
        )
    rows: Any = from_dlpack(vectors)
    return lambda start, end: np.asarray(dots_packed(rows[start:end], packed))


def _torch(query: torch.Tensor, vectors: torch.Tensor) -> Dots:
    columns = query.float().T.contiguous()
    return lambda start, end: (vectors[start:end].float() @ columns).numpy()


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
