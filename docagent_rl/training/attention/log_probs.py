"""Log-probabilities of labels from logits, in blocks of positions, without a copy of the logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

BLOCK_ENTRIES = 2**24
"""Logits that are looked at together: 64 MiB in float32."""


def log_probs_of_labels(logits: Tensor, labels: Tensor, inplace_backward: bool = True) -> Tensor:
    """Return log softmax(logits)[labels], (...) in float32 (float64 for float64).

    Stands in for flash-attn's cross entropy, with its numbers and its memory: beside the logits, which are
    kept for the backward pass, it holds a block and one number a position.

    Args:
        logits: (..., v), any floating type.
        labels: (...), from 0 to v - 1.
        inplace_backward: whether the backward pass may write the gradient into the logits. That needs them
            for nothing else: another function that kept them fails in its own backward pass. Ignored for
            leaves, which own their values.
    """
    flat = logits.reshape(-1, logits.shape[-1])
    found = _LogProbs.apply(flat, labels.reshape(-1), inplace_backward and not logits.is_leaf)
    assert isinstance(found, Tensor)
    return found.view(labels.shape)


class _LogProbs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, logits: Tensor, labels: Tensor, inplace_backward: bool) -> Tensor:
        dtype = torch.promote_types(logits.dtype, torch.float32)
        normalisers = torch.empty(len(logits), dtype=dtype, device=logits.device)
        chosen = logits.gather(1, labels[:, None]).squeeze(1).to(dtype)
        for block in _blocks(logits):
            torch.logsumexp(logits[block].to(dtype), dim=1, out=normalisers[block])
        ctx.save_for_backward(logits, labels, normalisers)
        ctx.inplace_backward = inplace_backward
        return chosen.sub_(normalisers)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        logits, labels, normalisers = ctx.saved_tensors
        (gradient,) = gradients
        result = logits.detach() if ctx.inplace_backward else torch.empty_like(logits)
        for block in _blocks(logits):
            # d log p(label) / d logits = one at the label - softmax
            part = logits[block].to(normalisers.dtype, copy=True).sub_(normalisers[block, None]).exp_()
            part.mul_(-gradient[block, None])
            part.scatter_add_(1, labels[block, None], gradient[block, None].to(part.dtype))
            result[block] = part
        return result, None, None


def _blocks(logits: Tensor) -> list[slice]:
    rows = max(1, BLOCK_ENTRIES // max(1, logits.shape[1]))
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]
