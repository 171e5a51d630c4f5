"""Vectors of many pages in one contiguous array of low precision."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    import torch

VECTORS, OFFSETS, SCALES = "vectors.npy", "offsets.npy", "scales.npy"


class Precision(StrEnum):
    """Ways to store the numbers of vectors."""

    BFLOAT16 = "bfloat16"
    """Two bytes each."""
    INT8 = "int8"
    """One byte each and a float32 factor a vector: the largest number becomes 127. Loses some recall."""


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

    def span(self, first: int, last: int) -> Bank:
        """Return a bank of the pages `first` to `last` (0-based, one behind the last)."""
        start, end = int(self.offsets[first]), int(self.offsets[last])
        scales = None if self.scales is None else self.scales[start:end]
        return Bank(self.vectors[start:end], self.offsets[first : last + 1] - start, scales)

    def page(self, number: int) -> np.ndarray:
        """Return the vectors of a page (0-based), float32 of shape (n, dim)."""
        return self.rows(np.arange(self.offsets[number], self.offsets[number + 1]))

    def rows(self, numbers: np.ndarray) -> np.ndarray:
        """Return some vectors, float32 of shape (n, dim), by their int64 numbers."""
        import torch

        found = self.vectors[torch.from_numpy(numbers)].float().numpy()
        return found if self.scales is None else found * self.scales[numbers, None]

    def blocks(self, first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
        """Yield pages `first` to `last` in runs of about `rows` vectors: (first, one behind the last)."""
        while first < last:
            limit = self.offsets[first] + rows
            end = int(np.searchsorted(self.offsets, limit, side="right")) - 1
            end = min(last, max(first + 1, end))
            yield first, end
            first = end


def make_bank(pages: Sequence[np.ndarray], dim: int, precision: Precision = Precision.BFLOAT16) -> Bank:
    """Return a bank in memory of pages, each float32 of shape (n, dim), n >= 0, rounded to a precision."""
    import torch

    offsets = np.cumsum([0, *(len(page) for page in pages)], dtype=np.int64)
    rows = np.concatenate([np.zeros((0, dim), np.float32), *pages]).astype(np.float32, copy=False)
    if precision is Precision.BFLOAT16:
        return Bank(torch.from_numpy(rows).to(torch.bfloat16), offsets)
    scales = (np.abs(rows).max(axis=1, initial=0) / 127).astype(np.float32)
    whole = np.rint(rows / np.where(scales > 0, scales, 1)[:, None]).clip(-127, 127).astype(np.int8)
    return Bank(torch.from_numpy(whole), offsets, scales)


def write_banks(folder: Path, banks: Iterable[Bank]) -> None:
    """Write banks, of one dim and precision, behind each other as the arrays of one, for `open_bank`."""
    offsets, scales = [np.zeros(1, np.int64)], []
    with (folder / VECTORS).open("wb") as file:
        for bank in banks:
            if not file.tell():
                _write_head(file, bank, 0)
            file.write(_stored(bank.vectors).tobytes())
            offsets.append(bank.offsets[1:] + offsets[-1][-1])
            if bank.scales is not None:
                scales.append(bank.scales)
        file.seek(0)  # numpy leaves room for any number of rows
        _write_head(file, bank, int(offsets[-1][-1]))
    np.save(folder / OFFSETS, np.concatenate(offsets))
    if scales:
        np.save(folder / SCALES, np.concatenate(scales))


def open_bank(folder: Path) -> Bank:
    """Return the bank in a folder, mapped into memory: all processes of a node share it.

    Raises:
        OSError, ValueError: a file is missing, or is no array.
    """
    scales = np.load(folder / SCALES) if (folder / SCALES).is_file() else None
    # copied on writing, which nobody does: torch takes no array that cannot be written
    vectors = _tensor(np.load(folder / VECTORS, mmap_mode="c"))
    return Bank(vectors, np.load(folder / OFFSETS), scales)


def pack_bank(bank: Bank) -> bytes:
    """Return a bank as one file, with checksums; for `unpack_bank`."""
    buffer, vectors = io.BytesIO(), _stored(bank.vectors)
    if bank.scales is None:
        np.savez(buffer, vectors=vectors, offsets=bank.offsets)
    else:
        np.savez(buffer, vectors=vectors, offsets=bank.offsets, scales=bank.scales)
    return buffer.getvalue()


def unpack_bank(path: Path) -> Bank:
    """Return the bank of a file.

    Raises:
        OSError, ValueError, KeyError, zipfile.BadZipFile: there is none, or it is damaged.
    """
    with np.load(path) as arrays:
        return Bank(_tensor(arrays["vectors"]), arrays["offsets"], arrays.get("scales"))


def _write_head(file: BinaryIO, bank: Bank, rows: int) -> None:
    stored = _stored(bank.vectors)
    form = {"descr": stored.dtype.str, "fortran_order": False, "shape": (rows, bank.dim)}
    np.lib.format.write_array_header_1_0(file, form)


def _stored(vectors: torch.Tensor) -> np.ndarray:
    """Return the numbers as numpy has them: bfloat16 as the int16 of the same bits."""
    import torch

    return (vectors.view(torch.int16) if vectors.dtype is torch.bfloat16 else vectors).numpy()


def _tensor(stored: np.ndarray) -> torch.Tensor:
    import torch

    found = torch.from_numpy(stored)
    return found.view(torch.bfloat16) if found.dtype is torch.int16 else found
