"""Scores of words on pages, summed for the pages of a range alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np


class Postings:
    """The arrays of bm25s: for each token the pages that hold it, ascending, and its score there.

    Args:
        scores: `data` (n,) float, `indices` (n,) rows of pages, `indptr` (tokens + 1,), `num_docs` pages.
    """

    def __init__(self, scores: Mapping[str, np.ndarray]) -> None:
        # a view that is no memmap: slices of that class cost more than these searches
        self._data, self._rows = (np.asarray(scores[name]).view(np.ndarray) for name in ("data", "indices"))
        self._starts = np.asarray(scores["indptr"]).view(np.ndarray)
        self._num_rows = int(scores["num_docs"])

    def scores(self, tokens: Sequence[int], start: int, end: int) -> np.ndarray:
        """Sums over a query's tokens, those that are repeated counted again.

        Args:
            tokens: ids.
            start: first row.
            end: the row behind the last.

        Returns:
            Of shape (end - start,), as bm25s has them for all pages: the sum is over the same numbers in the
            same order.
        """
        sums = np.zeros(end - start, dtype=self._data.dtype)
        for token in tokens:
            first, last = self._starts[token], self._starts[token + 1]
            rows, data = self._rows[first:last], self._data[first:last]
            if (start, end) != (0, self._num_rows):
                low, high = np.searchsorted(rows, (start, end))
                rows, data = rows[low:high] - start, data[low:high]
            np.add.at(sums, rows, data)  # quicker than indexing
        return sums


def are_sorted(scores: Mapping[str, np.ndarray]) -> bool:
    """Whether each token's rows ascend."""
    rows, starts = np.asarray(scores["indices"]), np.asarray(scores["indptr"])
    falls = np.flatnonzero(np.diff(rows) <= 0) + 1
    return bool(np.isin(falls, starts).all())
