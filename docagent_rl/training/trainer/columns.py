"""Read fields of a step at its sampled tokens only; observations, most of a row, are not kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
import transfer_queue as tq
from tensordict import TensorDict
from torch import Tensor

from docagent_rl.training.tensors import TURN, row_lengths, tensor

_ROWS_AT_ONCE = 128
"""Rows that are fetched together; all rows of a step at once would take gigabytes."""


@dataclass(frozen=True)
class SampledColumns:
    """Fields of b rows at their n sampled tokens, row by row.

    `lengths` (b,) is the number of sampled tokens of each row, `widths` (b,) the number of its
    positions; `positions` (n,) are the positions of the tokens in their rows, and `values` are
    fields (n,) by name, including `turn_index`.
    """

    lengths: Tensor
    positions: Tensor
    widths: Tensor
    values: Mapping[str, Tensor]

    @classmethod
    def fetch(
        cls, keys: Sequence[str], partition_id: str, names: Sequence[str] = ()
    ) -> SampledColumns:
        """Read `turn_index` and the fields `names` from the queue, some rows at a time.

        The fields have one number per position of the response.

        Raises:
            ValueError: the rows of a field and of `turn_index` have different lengths.
        """
        starts = range(0, len(keys), _ROWS_AT_ONCE)
        return cls.joined(
            [_sampled(keys[n : n + _ROWS_AT_ONCE], partition_id, names) for n in starts]
        )

    @classmethod
    def joined(cls, parts: Sequence[SampledColumns]) -> SampledColumns:
        """Return the rows of all parts, in order; the parts have the same fields."""
        return cls(
            lengths=torch.cat([part.lengths for part in parts]),
            positions=torch.cat([part.positions for part in parts]),
            widths=torch.cat([part.widths for part in parts]),
            values={
                name: torch.cat([part.values[name] for part in parts]) for name in parts[0].values
            },
        )

    def having(self, **compact: Tensor) -> SampledColumns:
        """Return the columns with additional fields, given as (b, s)."""
        flat = {name: rows.reshape(-1)[self.padded_indices] for name, rows in compact.items()}
        return replace(self, values={**self.values, **flat})

    def fetching(
        self, keys: Sequence[str], partition_id: str, names: Sequence[str]
    ) -> SampledColumns:
        """Return the columns with additional fields of their rows, read from the queue.

        Raises:
            ValueError: the rows of a field and of `turn_index` have different lengths.
        """
        if not names:
            return self
        parts: dict[str, list[Tensor]] = {name: [] for name in names}
        first_token = 0
        for start in range(0, len(keys), _ROWS_AT_ONCE):
            some = list(keys[start : start + _ROWS_AT_ONCE])
            widths = self.widths[start : start + len(some)]
            lengths = self.lengths[start : start + len(some)]
            end_token = first_token + int(lengths.sum())

            # where the tokens are in the concatenated rows
            row_starts = widths.cumsum(0) - widths
            rows = self.rows[first_token:end_token] - start
            indices = row_starts[rows] + self.positions[first_token:end_token]

            data = tq.kv_batch_get(keys=some, partition_id=partition_id, select_fields=list(names))
            for name in names:
                parts[name].append(_flat_of(data, name, widths)[indices])
            first_token = end_token
        fetched = {name: torch.cat(values) for name, values in parts.items()}
        return replace(self, values={**self.values, **fetched})

    def padded(self, name: str, padding: float = 0.0) -> Tensor:
        """Return a field as (b, s), where s is the largest number of sampled tokens in a row."""
        values = self.values[name]
        rows = torch.full(self.shape, padding, dtype=values.dtype)
        rows.view(-1)[self.padded_indices] = values
        return rows

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The shape (b, s) of a padded field."""
        return len(self.lengths), int(self.lengths.max())

    @cached_property
    def rows(self) -> Tensor:
        """The row (n,) of each token."""
        return torch.repeat_interleave(self.lengths)

    @cached_property
    def padded_indices(self) -> Tensor:
        """The index (n,) of each token in a flattened padded field."""
        # a token keeps its distance from the first token of its row
        starts = self.lengths.cumsum(0) - self.lengths
        padded_starts = torch.arange(len(starts)) * self.shape[1]
        return torch.arange(len(self.rows)) + (padded_starts - starts)[self.rows]

    def gathered(self, dense: Tensor) -> Tensor:
        """Return (b, t) at the sampled tokens, as (b, s) with zeros after the last one in a row."""
        rows = torch.zeros(self.shape, dtype=dense.dtype)
        dense_indices = self.rows * dense.shape[1] + self.positions
        rows.view(-1)[self.padded_indices] = dense.reshape(-1)[dense_indices]
        return rows

    def scattered(self, compact: Tensor, width: int) -> Tensor:
        """Return (b, s) as (b, width), with zeros where nothing was sampled; inverts `gathered`."""
        dense = torch.zeros(len(self.lengths), width, dtype=compact.dtype)
        dense_indices = self.rows * width + self.positions
        dense.view(-1)[dense_indices] = compact.reshape(-1)[self.padded_indices]
        return dense

    def nested(self, compact: Tensor) -> Tensor:
        """Return (b, s) as a nested tensor over all positions, with zeros where nothing was
        sampled.
        """
        starts = self.widths.cumsum(0) - self.widths
        flat = torch.zeros(int(self.widths.sum()), dtype=compact.dtype)
        flat[starts[self.rows] + self.positions] = compact.reshape(-1)[self.padded_indices]
        offsets = torch.cat([torch.zeros(1, dtype=torch.int64), self.widths.cumsum(0)])
        return torch.nested.nested_tensor_from_jagged(flat, offsets)

    def split(self, name: str) -> Sequence[Tensor]:
        """Return a field's values row by row."""
        return self.values[name].split(self.lengths.tolist())


def rows_with_samples(keys: Iterable[str], partition_id: str) -> set[str]:
    """Return the keys of rows, from any agent loop, that have sampled tokens."""
    names = list(keys)
    if not names:
        return set()
    data = tq.kv_batch_get(keys=names, partition_id=partition_id, select_fields=["response_mask"])
    masks = tensor(data, "response_mask").unbind()
    return {key for key, mask in zip(names, masks, strict=True) if mask.any()}


def _sampled(keys: Sequence[str], partition_id: str, names: Sequence[str]) -> SampledColumns:
    fields = [TURN, *names]
    data: TensorDict = tq.kv_batch_get(
        keys=list(keys), partition_id=partition_id, select_fields=fields
    )
    turns, widths = _flat(data, TURN)
    # the sampled tokens in the concatenated rows; twice as fast as torch's `nonzero`
    indices = torch.from_numpy(np.flatnonzero(turns.numpy() >= 0))
    ends = widths.cumsum(0)
    lengths = torch.searchsorted(indices, ends).diff(prepend=ends.new_zeros(1))
    positions = indices - torch.repeat_interleave(ends - widths, lengths)
    values = {TURN: turns[indices].long()}
    for name in names:
        values[name] = _flat_of(data, name, widths)[indices]
    return SampledColumns(lengths, positions, widths, values)


def _flat_of(data: TensorDict, name: str, widths: Tensor) -> Tensor:
    """Return a field's values, concatenated; its rows must have these widths."""
    flat, own_widths = _flat(data, name)
    if not torch.equal(own_widths, widths):
        raise ValueError(f"the rows of {name} and {TURN} have different lengths")
    return flat


def _flat(data: TensorDict, name: str) -> tuple[Tensor, Tensor]:
    """Return a field's values, concatenated, and the length of each row."""
    field = tensor(data, name)
    if field.is_nested:
        return field.values(), row_lengths(data, name)
    return field.reshape(-1), torch.full((len(field),), field.shape[1])
