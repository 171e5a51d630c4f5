"""Whether two runs differ by more than chance: documents change sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from docagent_rl.lab.eval.report.sums import Sums

EXACT = 14
"""Documents up to which all ways to change sides are tried."""
FEWEST = 6
"""Documents from which on a p-value can lie below 0.05: of five the least is 2 / 2**5."""
_CHUNK = 256
_SLACK = 1e-12
"""Sums in another order are rounded otherwise."""


def p_values(first: Sums, second: Sums, *, draws: int, seed: int) -> list[float | None]:
    """Two-sided p-values of the difference of every cell, if it were chance who has which sessions.

    All questions about a document change sides together. Up to `EXACT` documents all ways are tried; beyond,
    `draws` random ones, and the way that was found counts as one more.

    Args:
        first: of one run.
        second: of the other, over the same documents and cells.
        draws: random ways.
        seed: of them.

    Returns:
        In `(0, 1]`; `None` where a run has no value, and of fewer than `FEWEST` documents: they tell nothing.
    """
    observed = np.abs(_difference(second, second.table.sum(axis=0), first, first.table.sum(axis=0)))
    change = second.table - first.table
    one, other = first.table.sum(axis=0), second.table.sum(axis=0)
    reached, tried = np.zeros(len(first.cells)), np.zeros(len(first.cells))
    exact = len(first.documents) <= EXACT
    for sides in _all_sides(len(first.documents)) if exact else _some_sides(len(change), draws, seed):
        moved = sides @ change
        found = np.abs(_difference(second, other - moved, first, one + moved))
        reached += np.sum(found >= observed - _SLACK, axis=0)
        tried += np.sum(~np.isnan(found), axis=0)
    extra = 0 if exact else 1
    return [
        None if np.isnan(seen) or documents < FEWEST else float((times + extra) / (many + extra))
        for seen, times, many, documents in zip(observed, reached, tried, first.clusters, strict=True)
    ]


def least_p(documents: int, draws: int) -> float | None:
    """Return the least p-value that a difference over so many documents can have; `None` of too few."""
    if documents < FEWEST:
        return None
    return 2.0 ** (1 - documents) if documents <= EXACT else 1 / (draws + 1)


def holm(values: Sequence[float | None]) -> list[float | None]:
    """P-values corrected for being several, by Holm's step-down rule; `None` is no test."""
    there = sorted((value, place) for place, value in enumerate(values) if value is not None)
    corrected: list[float | None] = [None] * len(values)
    worst = 0.0
    for rank, (value, place) in enumerate(there):
        worst = max(worst, min(1.0, value * (len(there) - rank)))
        corrected[place] = worst
    return corrected


def _difference(second: Sums, theirs: np.ndarray, first: Sums, ours: np.ndarray) -> np.ndarray:
    return second.combine(theirs) - first.combine(ours)


def _all_sides(documents: int) -> Iterator[np.ndarray]:
    """Every way to change sides: `(..., documents)` of 0 and 1."""
    places = np.arange(documents)
    for begin in range(0, 2**documents, _CHUNK):
        ways = np.arange(begin, min(begin + _CHUNK, 2**documents))
        yield ((ways[:, None] >> places) & 1).astype(float)


def _some_sides(documents: int, draws: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    for begin in range(0, draws, _CHUNK):
        yield rng.integers(2, size=(min(_CHUNK, draws - begin), documents)).astype(float)
