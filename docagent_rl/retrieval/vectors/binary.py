"""Signs of vectors, one bit per number: a first pass finds candidates, which whole vectors score.

A page's first score is the late-interaction score (`bank`) with signs instead of numbers on both
sides: the product of two vectors is then `dim - 2 * (number of signs that differ)`. The scan reads
only the bits, and whole vectors are read from disk for `num_candidates` pages. Rescoring candidates
by Hamming distance follows Yamada, Asai and Hajishirzi (ACL 2021, "Efficient passage retrieval with
hashing for open-domain question answering"), who learn the bits and score them with a whole query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docagent_rl.retrieval.vectors.bank import NO_SCORE, Bank, checked_query, open_bank

SIGNS = "signs.npy"

_FACTOR = 10
_FEWEST = 100
_WORD = 64
"""Number of bits per stored word; those after the last sign are 0."""
_ROWS = 1 << 15
"""Number of vectors to compare at a time: their bits fit into a cache, and numpy's calls are few.
"""


@dataclass(frozen=True, slots=True)
class Signs:
    """The signs of the vectors of a bank.

    Args:
        bits: uint64, shape (N, words), one row per vector; a bit is 1 for a number above 0.
        bank: the whole vectors.
    """

    bits: np.ndarray
    bank: Bank

    def scores(self, queries: Sequence[np.ndarray], first: int, last: int) -> np.ndarray:
        """Return the first scores of the pages from `first` to `last` (0-based, `last` exclusive).

        Returns:
            float32 of shape (queries, last - first); `NO_SCORE` for pages without vectors.

        Raises:
            ValueError: A query is empty, not finite, or of another shape than (t, dim).
        """
        scores = np.empty((len(queries), last - first), np.float32)
        asked = [packed(checked_query(query, self.bank.dim).numpy()) for query in queries]
        for start, end in self.bank.blocks(first, last, _ROWS):
            offsets = self.bank.offsets[start : end + 1]
            # contiguous columns of words save a third of the time
            words = np.ascontiguousarray(self.bits[offsets[0] : offsets[-1]].T)
            for row, query in zip(scores, asked, strict=True):
                row[start - first : end - first] = self._block(words, query, np.diff(offsets))
        return scores

    def _block(self, words: np.ndarray, query: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Return the scores of pages of these lengths, from words (words, n), query (t, words)."""
        filled = np.flatnonzero(lengths)
        starts = np.cumsum(lengths[filled]) - lengths[filled]
        # use one byte if that suffices, so that less memory is moved
        differing = np.empty(words.shape[1], np.min_scalar_type(len(words) * _WORD))
        fewest = np.zeros(len(filled), np.int64)
        for vector in query:
            differing[:] = 0
            for column, word in zip(words, vector, strict=True):
                differing += np.bitwise_count(column ^ word)
            fewest += np.minimum.reduceat(differing, starts) if len(starts) else 0
        scores = np.full(len(lengths), NO_SCORE, np.float32)
        scores[filled] = len(query) * self.bank.dim - 2 * fewest
        return scores


def num_candidates(top_k: int) -> int:
    """Return the number of pages to score with whole vectors in a search for `top_k` pages."""
    return max(_FEWEST, _FACTOR * top_k)


def packed(vectors: np.ndarray) -> np.ndarray:
    """Return the signs of vectors, float32 (n, dim), as uint64 (n, words)."""
    packed_bytes = np.packbits(vectors > 0, axis=1)
    missing = -packed_bytes.shape[1] % (_WORD // 8)
    return np.pad(packed_bytes, ((0, 0), (0, missing))).view("<u8")


def write_signs(folder: Path) -> None:
    """Write the signs of the bank in a folder (`write_banks`) to the same folder."""
    bank = open_bank(folder)
    form = {"descr": "<u8", "fortran_order": False, "shape": (len(bank.vectors), _words(bank.dim))}
    with (folder / SIGNS).open("wb") as file:
        np.lib.format.write_array_header_1_0(file, form)
        for start in range(0, len(bank.vectors), _ROWS):
            file.write(packed(bank.rows(start, start + _ROWS).numpy()).tobytes())


def open_signs(folder: Path, bank: Bank) -> Signs:
    """Return the signs of the bank in a folder, mapped into memory like the bank.

    Raises:
        OSError, ValueError: The file is missing, not an array, or of another bank.
    """
    bits = np.load(folder / SIGNS, mmap_mode="r")
    shape = (len(bank.vectors), _words(bank.dim))
    if bits.dtype != np.uint64 or bits.shape != shape:
        raise ValueError(f"{SIGNS} is of {bits.dtype} and {bits.shape}, not of uint64 and {shape}")
    return Signs(bits, bank)


def _words(dim: int) -> int:
    return -(-dim // _WORD)
