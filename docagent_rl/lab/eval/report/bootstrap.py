"""Intervals by resampling documents: questions about one document are not independent of each other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from docagent_rl.lab.eval.report.sums import Sums

LEVEL = 0.95
DRAWS = 10_000
_CHUNK = 256
"""Resamples at a time; part of what a seed means."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with its interval.

    Args:
        value: `None` of nothing.
        low: of the interval; `None` where one document, or none, says nothing about others.
        high: the same.
        questions: that it is over.
        documents: that they are about.
    """

    value: float | None
    low: float | None
    high: float | None
    questions: int
    documents: int


def intervals(sums: Sums, *, draws: int = DRAWS, seed: int = 0, level: float = LEVEL) -> list[Interval]:
    """Percentile intervals of all cells, over the same resamples of documents.

    Args:
        sums: of the sessions.
        draws: resamples, each of as many documents as there are, with replacement.
        seed: of the resamples.
        level: share of the resamples that lie inside.

    Returns:
        One for each cell. A resample without any question of a cell says nothing about it and is left out.
    """
    values = sums.combine(sums.table.sum(axis=0))
    found = [sums.combine(totals) for totals in resampled(sums.table, draws, seed)]
    low, high = ends(np.concatenate(found) if found else np.full((1, len(sums.cells)), np.nan), level)
    return [
        Interval(
            value=number(value),
            low=number(a) if clusters > 1 else None,
            high=number(b) if clusters > 1 else None,
            questions=questions,
            documents=clusters,
        )
        for value, a, b, questions, clusters in zip(
            values, low, high, sums.questions, sums.clusters, strict=True
        )
    ]


def counts(documents: int, draws: int, seed: int) -> Iterator[np.ndarray]:
    """How often each document is in each resample: arrays of at most `(256, documents)`."""
    rng = np.random.default_rng(seed)
    for begin in range(0, draws if documents else 0, _CHUNK):
        size = min(_CHUNK, draws - begin)
        yield rng.multinomial(documents, np.full(documents, 1 / documents), size=size).astype(float)


def resampled(table: np.ndarray, draws: int, seed: int) -> Iterator[np.ndarray]:
    """Sums over resamples of documents: arrays of at most `(256, columns)`."""
    for times in counts(len(table), draws, seed):
        yield times @ table


def ends(found: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends over the first axis, what is not a number left out."""
    tail = (1 - level) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of columns without any number
        low, high = np.nanquantile(found, (tail, 1 - tail), axis=0)
    return low, high


def number(value: float) -> float | None:
    """The number; `None` for what is none."""
    return float(value) if np.isfinite(value) else None
