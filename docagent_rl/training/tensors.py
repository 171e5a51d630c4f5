"""Fields of verl's batches by their types: tensordict's own leave open what a field holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

if TYPE_CHECKING:
    from torch.nested._internal.nested_tensor import NestedTensor


def tensor(data: TensorDict, name: str) -> Tensor:
    """A field that is a tensor, nested or not."""
    return cast("Tensor", data[name])


def jagged(data: TensorDict, name: str) -> NestedTensor:
    """A field whose rows have lengths of their own."""
    return cast("NestedTensor", data[name])


def row_lengths(data: TensorDict, name: str) -> Tensor:
    """The lengths of a nested field's b rows, (b,)."""
    return jagged(data, name).offsets().diff()


def padded(data: TensorDict, name: str, padding: float = 0.0) -> Tensor:
    """A nested field of b rows as (b, t), its rows filled up with `padding`."""
    return jagged(data, name).to_padded_tensor(padding=padding)


def count(data: TensorDict, name: str) -> int:
    """A field that is one whole number for all rows."""
    return cast("int", data[name])


def partition(batch: KVBatchMeta) -> str:
    """The partition of the queue that holds the rows of a batch.

    Raises:
        ValueError: the batch was made without one.
    """
    if batch.partition_id is None:
        raise ValueError("a batch without a partition has no rows in the queue")
    return batch.partition_id
