"""Typed access to the fields of verl's batches, and to the rows of its nested micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import torch
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from docagent_rl.losses.positions import TokenRows

if TYPE_CHECKING:
    from torch.nested._internal.nested_tensor import NestedTensor


def tensor(data: TensorDict, name: str) -> Tensor:
    """Return a field that is a tensor, nested or not."""
    return cast("Tensor", data[name])


def jagged(data: TensorDict, name: str) -> NestedTensor:
    """Return a field whose rows have different lengths."""
    return cast("NestedTensor", data[name])


def row_lengths(data: TensorDict, name: str) -> Tensor:
    """Return the lengths (b,) of a nested field's rows."""
    return jagged(data, name).offsets().diff()


def flat(data: TensorDict, name: str) -> Tensor:
    """Return a field's values, row by row; the queue returns rows of equal length as one tensor."""
    field = tensor(data, name)
    return field.values() if field.is_nested else field.reshape(-1)


def count(data: TensorDict, name: str) -> int:
    """Return a field that is a single integer for all rows."""
    return cast("int", data[name])


def partition(batch: KVBatchMeta) -> str:
    """Return the partition of the queue that contains the rows of a batch."""
    return cast("str", batch.partition_id)


TURN = "turn_index"
"""Field of a batch: for each token of the response its turn, and -1 where it was not sampled."""
ROLLOUT_MASK = "rollout_mask"
"""Field of a batch: 1 exactly on sampled tokens, with the shape of `response_mask`.

It exists if tokens may be rejected; `response_mask` then only marks the tokens that are trained.
"""


def read_rows(data: TensorDict, device: torch.device | None = None) -> TokenRows:
    """Return the b rows of a batch, mini-batch or micro-batch from its nested `prompts`,
    `responses` and `response_mask`.

    Tokens that verl rejected count as sampled: `ROLLOUT_MASK`, if it exists, includes them. The
    response region is as wide as the longest response, as in `no_padding_2_padding` for log-probs.
    """
    responses = tensor(data, "responses")
    sampled = tensor(data, ROLLOUT_MASK if ROLLOUT_MASK in data.keys() else "response_mask")  # noqa: SIM118
    rows = TokenRows(
        responses=pad(responses),
        sampled=pad(sampled).bool(),
        trained=pad(tensor(data, "response_mask")).bool(),
        prompt_lengths=row_lengths(data, "prompts"),
        response_lengths=row_lengths(data, "responses"),
    )
    return rows if device is None else rows.to(device)


def pad(nested: Tensor) -> Tensor:
    """Return (b, t), padded with zeros on the right of each row."""
    return torch.nested.to_padded_tensor(nested, 0)


def response_part(log_probs: Tensor, data: TensorDict) -> list[Tensor]:
    """Return the log-probs of each row's response from nested log-probs of whole rows.

    Those of whole rows are shifted to the left by one position.
    """
    lengths = row_lengths(data, "responses").tolist()
    return [row[-length - 1 : -1] for row, length in zip(log_probs.unbind(), lengths, strict=True)]
