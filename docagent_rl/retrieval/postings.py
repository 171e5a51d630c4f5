"""Scores of words on pages, summed for the pages of a range alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    import bm25s


@dataclass(frozen=True, slots=True)
class Postings:
    """The arrays of bm25s: for each token the pages that hold it, ascending, and its score there.

    Args:
        data: float (n,): the scores.
        rows: int (n,): the pages.
        starts: int (tokens + 1,): token i has the scores from starts[i] to starts[i + 1].
        num_rows: pages.
    """

    data: np.ndarray
    rows: np.ndarray
    starts: np.ndarray
    num_rows: int

    @classmethod
    def of(cls, index: bm25s.BM25) -> Postings:
        """Return the arrays of an index."""
        scores = cast("Mapping[str, np.ndarray]", index.scores)
        return cls(scores["data"], scores["indices"], scores["indptr"], int(scores["num_docs"]))

    def save(self, folder: Path) -> None:
        """Write the arrays to a folder, for `open`."""
        for name in ("data", "rows", "starts"):
            np.save(folder / f"{name}.npy", getattr(self, name))

    @classmethod
    def open(cls, folder: Path, num_rows: int) -> Postings:
        """Return the arrays that `save` wrote, mapped into memory: the processes of a node share them.

        Raises:
            OSError, ValueError: a file is missing, or is no array.
        """
        files = (folder / f"{name}.npy" for name in ("data", "rows", "starts"))
        # views that are no memmaps: slices of that class cost more than these searches
        return cls(*(np.load(file, mmap_mode="r").view(np.ndarray) for file in files), num_rows)

    def scores(self, tokens: Sequence[int], start: int, end: int) -> np.ndarray:
        """Return sums over a query's tokens, those that are repeated counted again.

        Args:
            tokens: ids.
            start: first row.
            end: the row behind the last.

        Returns:
            Of shape (end - start,), as bm25s has them for all pages: the sum is over the same numbers in the
            same order.
        """
        sums = np.zeros(end - start, dtype=self.data.dtype)
        for token in tokens:
            first, last = self.starts[token], self.starts[token + 1]
            rows, data = self.rows[first:last], self.data[first:last]
            if (start, end) != (0, self.num_rows):
                low, high = np.searchsorted(rows, (start, end))
                rows, data = rows[low:high] - start, data[low:high]
            np.add.at(sums, rows, data)  # quicker than indexing
        return sums


def load_bm25s() -> ModuleType:
    """Import bm25s, which brings numba along; it says what it does at DEBUG only where somebody asks."""
    import bm25s

    logger = logging.getLogger("bm25s")
    if logger.level == logging.DEBUG:
        logger.setLevel(logging.WARNING)
    return bm25s
