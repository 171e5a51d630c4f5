"""Pairing the items of two lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def best_matching(scores: Sequence[Sequence[float]]) -> float:
    """The largest sum of scores that a one-to-one matching of rows and columns can have.

    Args:
        scores: a score for each row and column, none negative; shape (n, m), any of the two may be larger.

    Returns:
        The sum over min(n, m) pairs; 0 when there is nothing to pair.

    Raises:
        ValueError: a score is negative or not finite.
    """
    table = np.asarray(scores, dtype=np.float64)
    if not table.size:
        return 0.0
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("scores must be finite and not negative")
    if table.shape[0] > table.shape[1]:
        table = table.T
    assignment = _Assignment(-table)
    return float(table[np.arange(len(table)), assignment.column_of].sum())


class _Assignment:
    """Assigns every row a column of its own at least total cost, by shortest augmenting paths (Crouse, "On
    implementing 2D rectangular assignment algorithms", 2016).

    Args:
        costs: shape (n, m) with n <= m.
    """

    def __init__(self, costs: np.ndarray) -> None:
        n, m = costs.shape
        self._costs = costs
        self._row_price, self._column_price = np.zeros(n), np.zeros(m)
        self.column_of = np.full(n, -1)
        """The column of each row, shape (n,)."""
        self._row_of = np.full(m, -1)
        for row in range(n):
            self._augment(row)

    def _augment(self, free: int) -> None:
        m = self._costs.shape[1]
        distance, came_from = np.full(m, np.inf), np.full(m, -1)
        reached = np.zeros(m, dtype=bool)
        row, so_far = free, 0.0
        while row >= 0:
            through = so_far + self._costs[row] - self._row_price[row] - self._column_price
            shorter = ~reached & (through < distance)
            distance[shorter], came_from[shorter] = through[shorter], row
            column = int(np.where(reached, np.inf, distance).argmin())
            so_far = distance[column]
            reached[column] = True
            row = int(self._row_of[column])
        self._row_price[free] += so_far
        self._reprice(reached, so_far - distance)
        self._flip(free, column, came_from)

    def _reprice(self, reached: np.ndarray, slack: np.ndarray) -> None:
        """Keep reduced costs from falling below 0; `slack` is meaningful on the reached columns."""
        inner = np.flatnonzero(reached & (self._row_of >= 0))
        self._row_price[self._row_of[inner]] += slack[inner]
        self._column_price[reached] -= slack[reached]

    def _flip(self, free: int, column: int, came_from: np.ndarray) -> None:
        row = -1
        while row != free:
            row = int(came_from[column])
            self._row_of[column] = row
            self.column_of[row], column = column, int(self.column_of[row])
