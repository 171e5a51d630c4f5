"""Vectors of many pages in one contiguous array of bfloat16, and exact scores of pages by late interaction.

A page's score is `sum over query vectors of max over page vectors of their dot product` (ColBERT, Khattab and
Zaharia 2020, eq. 3), of the vectors as they are stored and of the query's rounded to bfloat16; products are
summed in float32. Nothing is padded and nothing is clipped: scores may be negative. The same formula is the
dot product of dense retrieval where query and page have one vector each.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

if TYPE_CHECKING:
    import torch

VECTORS, OFFSETS = "vectors.npy", "offsets.npy"
NO_SCORE = -np.inf
"""The score of a page without vectors, which is never a hit."""

_ON_CPU, _ON_GPU = 8192, 1 << 19
"""Vectors multiplied at a time: in float32 they fit a cache, and take 256 MB of a GPU at 128 dimensions."""
_QUERY = 512
"""Vectors of a query for which `Bank.gpu_bytes` leaves room."""


@dataclass(frozen=True, slots=True)
class Bank:
    """Pages of different lengths behind each other. Nothing in it is changed.

    Args:
        vectors: bfloat16, shape (N, dim).
        offsets: int64, shape (pages + 1,), rising from 0 to N; page i has the rows from offsets[i] to
            offsets[i + 1], none where they are equal.
    """

    vectors: torch.Tensor
    offsets: np.ndarray

    @property
    def num_pages(self) -> int:
        """Number of pages, those without vectors too."""
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.vectors.shape[1]

    @property
    def gpu_bytes(self) -> int:
        """Memory that the vectors take on a GPU, with what scoring a query takes besides: some of them in
        float32, and their products.
        """
        scored = min(len(self.vectors), _ON_GPU)
        return self.vectors.nbytes + scored * (self.dim + _QUERY) * np.dtype(np.float32).itemsize

    def to(self, device: torch.device) -> Bank:
        """Return the bank with its vectors in the memory of a device."""
        return Bank(self.vectors.to(device), self.offsets)

    def span(self, first: int, last: int) -> Bank:
        """Return a bank of the pages `first` to `last` (0-based, one behind the last)."""
        start, end = int(self.offsets[first]), int(self.offsets[last])
        return Bank(self.vectors[start:end], self.offsets[first : last + 1] - start)

    def blocks(self, first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
        """Yield pages `first` to `last` in runs of about `rows` vectors: (first, one behind the last)."""
        while first < last:
            limit = self.offsets[first] + rows
            end = int(np.searchsorted(self.offsets, limit, side="right")) - 1
            end = min(last, max(first + 1, end))
            yield first, end
            first = end


def make_bank(pages: Sequence[np.ndarray], dim: int) -> Bank:
    """Return a bank in memory of pages, each float32 of shape (n, dim), n >= 0, rounded to bfloat16."""
    import torch

    offsets = np.cumsum([0, *(len(page) for page in pages)], dtype=np.int64)
    rows = np.concatenate([np.zeros((0, dim), np.float32), *pages]).astype(np.float32, copy=False)
    return Bank(torch.from_numpy(rows).to(torch.bfloat16), offsets)


def write_banks(folder: Path, banks: Iterable[Bank]) -> None:
    """Write banks of one dim behind each other as the arrays of one, for `open_bank`."""
    offsets = [np.zeros(1, np.int64)]
    with (folder / VECTORS).open("wb") as file:
        for bank in banks:
            if not file.tell():
                _write_head(file, bank, 0)
            file.write(_bits(bank.vectors).tobytes())
            offsets.append(bank.offsets[1:] + offsets[-1][-1])
        file.seek(0)  # numpy leaves room for any number of rows
        _write_head(file, bank, int(offsets[-1][-1]))
    np.save(folder / OFFSETS, np.concatenate(offsets))


def open_bank(folder: Path) -> Bank:
    """Return the bank in a folder, mapped into memory: all processes of a node share it.

    Raises:
        OSError, ValueError: a file is missing, or is no array.
    """
    # copied on writing, which nobody does: torch takes no array that cannot be written
    return Bank(_of_bits(np.load(folder / VECTORS, mmap_mode="c")), np.load(folder / OFFSETS))


def pack_bank(bank: Bank) -> bytes:
    """Return a bank as one file, with checksums; for `unpack_bank`."""
    buffer = io.BytesIO()
    np.savez(buffer, vectors=_bits(bank.vectors), offsets=bank.offsets)
    return buffer.getvalue()


def unpack_bank(path: Path) -> Bank:
    """Return the bank of a file.

    Raises:
        OSError, ValueError, KeyError, zipfile.BadZipFile: there is none, or it is damaged.
    """
    with np.load(path) as arrays:
        return Bank(_of_bits(arrays["vectors"]), arrays["offsets"])


def _write_head(file: BinaryIO, bank: Bank, rows: int) -> None:
    form = {"descr": np.dtype(np.int16).str, "fortran_order": False, "shape": (rows, bank.dim)}
    np.lib.format.write_array_header_1_0(file, form)


def _bits(vectors: torch.Tensor) -> np.ndarray:
    """Return bfloat16 as the int16 of the same bits: numpy has no such type."""
    import torch

    return vectors.view(torch.int16).numpy()


def _of_bits(stored: np.ndarray) -> torch.Tensor:
    import torch

    return torch.from_numpy(stored).view(torch.bfloat16)


def rounded(vectors: np.ndarray) -> np.ndarray:
    """Return vectors, float32 of shape (n, dim), rounded to the numbers that bfloat16 has."""
    import torch

    return torch.from_numpy(np.array(vectors, np.float32)).to(torch.bfloat16).float().numpy()


def page_scores(
    bank: Bank, queries: Sequence[np.ndarray], first: int = 0, last: int | None = None
) -> np.ndarray:
    """Return scores of the consecutive pages `first` to `last` (0-based, one behind the last; by default
    all), computed where the vectors of the bank are.

    A score is the same to the last bit whichever queries are scored with it.

    Returns:
        float32 of shape (queries, last - first); `NO_SCORE` for pages without vectors.

    Raises:
        ValueError: a query is empty, not finite, or of another shape than (t, dim).
    """
    import torch

    last = bank.num_pages if last is None else last
    device = bank.vectors.device
    columns = [_columns(query, bank.dim).to(device) for query in queries]
    scores = torch.empty(len(queries), last - first, device=device)
    for start, end in bank.blocks(first, last, _ON_CPU if device.type == "cpu" else _ON_GPU):
        block = bank.vectors[int(bank.offsets[start]) : int(bank.offsets[end])].float()
        lengths = torch.from_numpy(np.diff(bank.offsets[start : end + 1])).to(device)
        for row, query in zip(scores, columns, strict=True):
            # of a page without vectors -inf, which is `NO_SCORE`
            maxima = torch.segment_reduce(block @ query, "max", lengths=lengths)  # ty: ignore[missing-attribute]
            row[start - first : end - first] = maxima.sum(1)
    return scores.cpu().numpy()


def _columns(query: np.ndarray, dim: int) -> torch.Tensor:
    """Return a query's vectors as they are multiplied, shape (dim, t)."""
    import torch

    if query.ndim != 2 or not len(query) or query.shape[1] != dim or not np.isfinite(query).all():
        raise ValueError(f"a query's vectors are finite, of shape (t, {dim}): got {query.shape}")
    return torch.from_numpy(rounded(query)).T.contiguous()
