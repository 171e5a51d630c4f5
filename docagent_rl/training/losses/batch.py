"""Reads verl's micro-batches: tensor dictionaries whose rows are nested."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor

from docagent_rl.losses.positions import Rows
from docagent_rl.training.tensors import row_lengths, tensor

ROLLOUT_MASK = "rollout_mask"
"""Field of a batch: 1 exactly on sampled tokens, in the shape of `response_mask`.

It is there where tokens may be rejected; `response_mask` then holds what is trained.
"""


def read_rows(data: TensorDict, device: torch.device | None = None) -> Rows:
    """Rows of a (micro-, mini-) batch with nested `prompts`, `responses` and `response_mask`.

    Tokens that verl rejected were sampled all the same: `ROLLOUT_MASK`, where it is given, has them. The
    response region is as wide as the longest response, as `no_padding_2_padding` makes it for log-probs.

    Args:
        data: the batch, of b rows.
        device: of the result; by default where the batch is.
    """
    responses = tensor(data, "responses")
    sampled = tensor(data, ROLLOUT_MASK if ROLLOUT_MASK in data.keys() else "response_mask")  # noqa: SIM118
    rows = Rows(
        responses=pad(responses),
        sampled=pad(sampled).bool(),
        prompt_lengths=row_lengths(data, "prompts"),
        response_lengths=row_lengths(data, "responses"),
    )
    return rows if device is None else rows.to(device)


def pad(nested: Tensor) -> Tensor:
    """(b, t) with zeros on the right of each row."""
    return torch.nested.to_padded_tensor(nested, 0)


def response_part(log_probs: Tensor, data: TensorDict) -> list[Tensor]:
    """Log-probs of each row's response, cut from those of the whole row, which stand one position early.

    Args:
        log_probs: nested, b rows of prompt and response.
        data: the batch they belong to.
    """
    lengths = row_lengths(data, "responses").tolist()
    return [row[-length - 1 : -1] for row, length in zip(log_probs.unbind(), lengths, strict=True)]
