"""Vectors of many pages in one contiguous array, and exact late-interaction scores of pages.

Vectors are stored as bfloat16, or as int8 with a scale for each vector (`smaller.Precision`); an
index of binary vectors also stores bfloat16, for the pages that are found by signs (`binary`).

A page's score is `sum over query vectors of max over page vectors of their dot product` (ColBERT,
Khattab and Zaharia 2020, eq. 3), computed with the stored vectors and the query's vectors rounded
to bfloat16; products are summed in float32. Nothing is padded or clipped, so scores may be
negative. If query and page have one vector each, the formula is the dot product of dense retrieval.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from docagent_rl.retrieval.vectors.smaller import Precision, quantised

if TYPE_CHECKING:
    import torch

VECTORS = "vectors.npy"
OFFSETS = "offsets.npy"
SCALES = "scales.npy"
NO_SCORE = -np.inf
"""The score of a page without vectors, which is never a hit."""

_ON_CPU = 2048
_ON_GPU = 1 << 19
"""Number of vectors to multiply at a time: in float32, they fit into a CPU cache, or take 256 MB on
a GPU at 128 dimensions.
"""
_QUERY = 512
"""Number of a query's vectors for which `Bank.gpu_bytes` leaves room."""


@dataclass(frozen=True, slots=True)
class Bank:
    """The vectors of pages one after the other; immutable.

    Args:
        vectors: bfloat16 or int8, shape (N, dim).
        offsets: int64, shape (pages + 1,), increasing from 0 to N; page i has the rows from
            offsets[i] to offsets[i + 1], none if they are equal.
        scales: for int8, the factor of each vector, float32, shape (N,).
    """

    vectors: torch.Tensor
    offsets: np.ndarray
    scales: torch.Tensor | None = None

    @property
    def num_pages(self) -> int:
        """Number of pages, including those without vectors."""
        return len(self.offsets) - 1

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.vectors.shape[1]

    @property
    def gpu_bytes(self) -> int:
        """Bytes that the vectors take on a GPU, including what scoring a query needs.

        That is some of the vectors in float32, and their products.
        """
        scored = min(len(self.vectors), _ON_GPU)
        return self.nbytes + scored * (self.dim + _QUERY) * np.dtype(np.float32).itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of the vectors."""
        return self.vectors.nbytes + (0 if self.scales is None else self.scales.nbytes)

    @property
    def precision(self) -> Precision:
        """Number format of the vectors."""
        return Precision.BFLOAT16 if self.scales is None else Precision.INT8

    def rows(self, start: int, end: int, out: torch.Tensor | None = None) -> torch.Tensor:
        """Return the vectors of a range of rows (end exclusive), float32.

        They are written to the beginning of `out`, float32 of shape (n, dim), n >= end - start: new
        memory for each block would take as long as the conversion.
        """
        found = self.vectors[start:end]
        found = found.float() if out is None else out[: end - start].copy_(found)
        return found if self.scales is None else found.mul_(self.scales[start:end, None])

    def to(self, device: torch.device) -> Bank:
        """Return a copy of the bank in the memory of a device."""
        scales = None if self.scales is None else self.scales.to(device)
        return Bank(self.vectors.to(device), self.offsets, scales)

    def span(self, first: int, last: int) -> Bank:
        """Return a bank of the pages from `first` to `last` (0-based, `last` exclusive)."""
        start = int(self.offsets[first])
        end = int(self.offsets[last])
        scales = None if self.scales is None else self.scales[start:end]
        return Bank(self.vectors[start:end], self.offsets[first : last + 1] - start, scales)

    def chosen(self, pages: np.ndarray) -> Bank:
        """Return a bank with copies of the vectors of some pages (0-based, shape (m,), m >= 1)."""
        import torch

        banks = [self.span(page, page + 1) for page in pages]
        offsets = np.cumsum([0, *(len(bank.vectors) for bank in banks)], dtype=np.int64)
        scales = [bank.scales for bank in banks if bank.scales is not None]
        vectors = torch.cat([bank.vectors for bank in banks])
        return Bank(vectors, offsets, torch.cat(scales) if scales else None)

    def blocks(self, first: int, last: int, rows: int) -> Iterator[tuple[int, int]]:
        """Yield ranges of pages with about `rows` vectors each, from `first` to `last`."""
        while first < last:
            limit = self.offsets[first] + rows
            end = int(np.searchsorted(self.offsets, limit, side="right")) - 1
            end = min(last, max(first + 1, end))
            yield first, end
            first = end


def make_bank(
    pages: Sequence[np.ndarray], dim: int, precision: Precision = Precision.BFLOAT16
) -> Bank:
    """Return a bank of pages, each float32 of shape (n, dim), n >= 0, rounded to `precision`."""
    import torch

    offsets = np.cumsum([0, *(len(page) for page in pages)], dtype=np.int64)
    rows = np.concatenate([np.zeros((0, dim), np.float32), *pages]).astype(np.float32, copy=False)
    if precision is Precision.INT8:
        numbers, scales = quantised(rows)
        return Bank(torch.from_numpy(numbers), offsets, torch.from_numpy(scales))
    return Bank(torch.from_numpy(rows).to(torch.bfloat16), offsets)


def write_banks(folder: Path, banks: Iterable[Bank]) -> None:
    """Write banks of the same dim and precision as the arrays of one bank, for `open_bank`."""
    offsets = [np.zeros(1, np.int64)]
    scales = []
    with (folder / VECTORS).open("wb") as file:
        for bank in banks:
            if not file.tell():
                _write_head(file, bank, 0)
            file.write(_bits(bank.vectors).tobytes())
            offsets.append(bank.offsets[1:] + offsets[-1][-1])
            scales += [] if bank.scales is None else [bank.scales.numpy()]
        file.seek(0)  # the header has room for any number of rows, so it can be overwritten
        _write_head(file, bank, int(offsets[-1][-1]))
    np.save(folder / OFFSETS, np.concatenate(offsets))
    if scales:
        np.save(folder / SCALES, np.concatenate(scales))


def open_bank(folder: Path) -> Bank:
    """Return the bank in a folder, mapped into memory, so that all processes of a node share it.

    Raises:
        OSError, ValueError: A file is missing or not an array.
    """
    # copy-on-write, since torch does not take read-only arrays; nothing is ever written
    vectors = np.load(folder / VECTORS, mmap_mode="c")
    offsets = np.load(folder / OFFSETS)
    scales = np.load(folder / SCALES) if (folder / SCALES).is_file() else None
    return _stored(vectors, offsets, scales)


def pack_bank(bank: Bank) -> bytes:
    """Return a bank as the content of a file with checksums, for `unpack_bank`."""
    buffer = io.BytesIO()
    scales = {} if bank.scales is None else {"scales": bank.scales.numpy()}
    np.savez(buffer, vectors=_bits(bank.vectors), offsets=bank.offsets, **scales)
    return buffer.getvalue()


def unpack_bank(path: Path) -> Bank:
    """Read a bank from a file that `pack_bank` made.

    Raises:
        OSError, ValueError, KeyError, zipfile.BadZipFile: The file is missing or damaged.
    """
    with np.load(path) as arrays:
        return _stored(arrays["vectors"], arrays["offsets"], arrays.get("scales"))


def _write_head(file: BinaryIO, bank: Bank, rows: int) -> None:
    stored = np.int16 if bank.scales is None else np.int8
    form = {"descr": np.dtype(stored).str, "fortran_order": False, "shape": (rows, bank.dim)}
    np.lib.format.write_array_header_1_0(file, form)


def _bits(vectors: torch.Tensor) -> np.ndarray:
    """Return bfloat16 as int16 with the same bits, since numpy has no bfloat16; int8 unchanged."""
    import torch

    return vectors.numpy() if vectors.dtype == torch.int8 else vectors.view(torch.int16).numpy()


def _stored(vectors: np.ndarray, offsets: np.ndarray, scales: np.ndarray | None) -> Bank:
    """Return the bank of stored arrays.

    Raises:
        ValueError: The arrays are not of the same precision.
    """
    import torch

    if vectors.dtype != (np.int16 if scales is None else np.int8):
        raise ValueError(
            f"vectors of {vectors.dtype} {'without' if scales is None else 'with'} scales"
        )
    if scales is not None:
        return Bank(torch.from_numpy(vectors), offsets, torch.from_numpy(scales))
    return Bank(torch.from_numpy(vectors).view(torch.bfloat16), offsets)


def rounded(vectors: np.ndarray) -> np.ndarray:
    """Return vectors, float32 of shape (n, dim), rounded to values of bfloat16."""
    import torch

    return torch.from_numpy(np.array(vectors, np.float32)).to(torch.bfloat16).float().numpy()


def page_scores(
    bank: Bank, queries: Sequence[np.ndarray], first: int = 0, last: int | None = None
) -> np.ndarray:
    """Score the pages from `first` to `last` (0-based, `last` exclusive; by default all pages).

    Scores are computed on the bank's device, and do not depend on the other queries, to the last
    bit.

    Returns:
        float32 of shape (queries, last - first); `NO_SCORE` for pages without vectors.

    Raises:
        ValueError: A query is empty, not finite, or of another shape than (t, dim).
    """
    import torch

    last = bank.num_pages if last is None else last
    device = bank.vectors.device
    asked = [checked_query(query, bank.dim).to(device) for query in queries]
    if device.type == "cpu":
        return _scores_on_cpu(bank, [query.numpy() for query in asked], first, last)
    scores = torch.empty(len(queries), last - first, device=device)
    for start, end in bank.blocks(first, last, _ON_GPU):
        block = bank.rows(int(bank.offsets[start]), int(bank.offsets[end]))
        lengths = np.diff(bank.offsets[start : end + 1])
        for row, query in zip(scores, asked, strict=True):
            row[start - first : end - first] = _maxima(query @ block.T, lengths).sum(0)
    return scores.cpu().numpy()


def _scores_on_cpu(bank: Bank, queries: Sequence[np.ndarray], first: int, last: int) -> np.ndarray:
    """Score pages as `page_scores` does, with numpy.

    Its OpenBLAS multiplies tall matrices by narrow ones faster than torch's MKL on processors of
    AMD, and its maxima take a tenth of torch's time.
    """
    import torch

    lengths = np.diff(bank.offsets[first : last + 1])
    most = min(max(_ON_CPU, int(lengths.max(initial=0))), int(lengths.sum()))
    space = torch.empty(most, bank.dim)
    products = np.empty(most * max(map(len, queries), default=0), np.float32)
    scores = np.full((len(queries), last - first), NO_SCORE, np.float32)
    for start, end in bank.blocks(first, last, _ON_CPU):
        low = int(bank.offsets[start])
        block = bank.rows(low, int(bank.offsets[end]), space).numpy()
        filled = np.flatnonzero(lengths[start - first : end - first])
        if not len(filled):
            continue
        starts = bank.offsets[start:end][filled] - low
        for row, query in zip(scores, queries, strict=True):
            found = products[: len(block) * len(query)].reshape(len(block), len(query))
            np.matmul(block, query.T, out=found)
            row[start - first + filled] = np.maximum.reduceat(found, starts, axis=0).sum(1)
    return scores


def _maxima(products: torch.Tensor, lengths: np.ndarray) -> torch.Tensor:
    """Return the largest product of each page, shape (t, pages), on the device of the products.

    `products` are those with the vectors of all pages one after the other. The maximum of a page
    without vectors is -inf (`NO_SCORE`).
    """
    import torch

    counts = torch.from_numpy(lengths).to(products.device)
    return torch.segment_reduce(products.T.contiguous(), "max", lengths=counts).T  # ty: ignore[missing-attribute]


def checked_query(query: np.ndarray, dim: int) -> torch.Tensor:
    """Return a query's vectors rounded for multiplication, shape (t, dim).

    Raises:
        ValueError: There are none, or they are not finite or of another shape.
    """
    import torch

    if query.ndim != 2 or not len(query) or query.shape[1] != dim or not np.isfinite(query).all():
        raise ValueError(
            f"a query's vectors must be finite and of shape (t, {dim}): got {query.shape}"
        )
    return torch.from_numpy(rounded(query))
