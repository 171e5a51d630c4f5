"""Pairing the items of two lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linear_sum_assignment


def best_matching(scores: Sequence[Sequence[float]]) -> float:
    """The largest sum of scores that a one-to-one matching of rows and columns can have.

    Args:
        scores: a score for each row and column, none negative; shape (n, m), any of the two may be larger.

    Returns:
        The sum over min(n, m) pairs; 0 when there is nothing to pair.

    Raises:
        ValueError: a score is negative or not finite.
    """
    table = np.asarray(scores)
    if not table.size:
        return 0.0
    if not np.isfinite(table).all() or (table < 0).any():
        raise ValueError("scores must be finite and not negative")
    return float(table[linear_sum_assignment(table, maximize=True)].sum())
