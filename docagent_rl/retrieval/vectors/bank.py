"""Vectors of many pages in one contiguous array of low precision."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


class Precision(StrEnum):
    """How the numbers of vectors are stored."""

    BFLOAT16 = "bfloat16"
    """Two bytes each."""
    INT8 = "int8"
    """One byte each and a float32 factor a vector: the largest number becomes 127. Loses some recall."""

    @property
    def width(self) -> int:
        """Bytes a number."""
        return 2 if self is Precision.BFLOAT16 else 1


@dataclass(frozen=True, slots=True)
class Bank:
    """Pages of different lengths behind each other. Nothing in it is changed.

    Args:
        vectors: bfloat16 or int8, shape (N, dim).
        offsets: int64, shape (pages + 1,), rising from 0 to N; page i has the rows from offsets[i] to
            offsets[i + 1], none where they are equal.
        scales: float32, shape (N,), where the vectors are int8: what each is to be multiplied by.
    """

    vectors: torch.Tensor
    offsets: np.ndarray
    scales: np.ndarray | None = None

    @property
    def num_pages(self) -> int:
        """Number of pages, those without vectors too."""
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.vectors.shape[1]

    def alone(self, number: int) -> Bank:
        """A bank of one page (0-based)."""
        start, end = (int(row) for row in self.offsets[number : number + 2])
        scales = None if self.scales is None else self.scales[start:end]
        return Bank(self.vectors[start:end], np.array([0, end - start]), scales)

    def page(self, number: int) -> np.ndarray:
        """Vectors of a page (0-based), float32 of shape (n, dim)."""
        start, end = (int(row) for row in self.offsets[number : number + 2])
        found = self.vectors[start:end].float().numpy()
        return found if self.scales is None else found * self.scales[start:end, None]

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Some vectors, float32 of shape (n, dim), by their int64 numbers."""
        import torch

        found = self.vectors[torch.from_numpy(numbers)].float().numpy()
        return found if self.scales is None else found * self.scales[numbers, None]

    def blocks(self, first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
        """Pages `first` to `last` in runs of about `rows` vectors: (first, one behind the last) of each.

        Where a run ends decides over time only.
        """
        while first < last:
            limit = self.offsets[first] + rows
            end = int(np.searchsorted(self.offsets, limit, side="right")) - 1
            end = min(last, max(first + 1, end))
            yield first, end
            first = end


def make_bank(pages: list[np.ndarray], dim: int, precision: Precision = Precision.BFLOAT16) -> Bank:
    """A bank in memory.

    Args:
        pages: float32 of shape (n, dim) each, n >= 0.
        dim: length of a vector, for a bank without any.
        precision: what they are rounded to.
    """
    import torch

    offsets = np.cumsum([0, *(len(page) for page in pages)], dtype=np.int64)
    rows = np.concatenate([np.zeros((0, dim), np.float32), *pages]).astype(np.float32, copy=False)
    if precision is Precision.BFLOAT16:
        return Bank(torch.from_numpy(rows).to(torch.bfloat16), offsets)
    scales = (np.abs(rows).max(axis=1, initial=0) / 127).astype(np.float32)
    whole = np.rint(rows / np.where(scales > 0, scales, 1)[:, None]).clip(-127, 127).astype(np.int8)
    return Bank(torch.from_numpy(whole), offsets, scales)


def bank_bytes(bank: Bank) -> bytes:
    """The numbers of the vectors as they lie in a file: little-endian, row after row."""
    import torch

    if not bank.vectors.numel():
        return b""
    return bank.vectors.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()


def map_vectors(path: Path, rows: int, dim: int, precision: Precision) -> torch.Tensor:
    """Vectors of a file, mapped into memory: all processes of a node share them.

    Raises:
        OSError: it cannot be read.
        ValueError: it is of another size.
    """
    import torch

    size = rows * dim * precision.width
    with path.open("rb") as file:
        found = os.fstat(file.fileno()).st_size
        if found != size:
            raise ValueError(f"it has {found} bytes, not {size}")
    kind = torch.bfloat16 if precision is Precision.BFLOAT16 else torch.int8
    if not rows:
        return torch.empty((0, dim), dtype=kind)  # nothing can be mapped
    # not shared means that nobody could write through it; the pages are shared all the same
    return torch.from_file(str(path), shared=False, size=rows * dim, dtype=kind).view(rows, dim)
