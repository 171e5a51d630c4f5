"""Output heads of models that FSDP2 has sharded."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from docagent_rl.losses.tiles import Head


class HasHead(Protocol):
    """A language model, as those of transformers are."""

    def get_output_embeddings(self) -> nn.Linear:
        """What makes logits of hidden states."""
        ...


def gathered_head(model: HasHead) -> Head:
    """The head of a model in training, whole on this device and receiving gradients.

    FSDP2 shards parameters again after the forward pass; the group of the head (its own, or the root's
    where it shares its weight with the embeddings) is gathered and stays so until its backward pass, which
    would gather it anyway. A collective: all workers call it, in every micro-batch, between forward and
    backward pass.

    The divergence must be computed after every other part of the loss. Autograd then runs it first, and its
    gradient of the head is there when FSDP2 reduces the head's gradients.

    Raises:
        RuntimeError: the head is sharded in a way that FSDP2 does not undo.
    """
    head = model.get_output_embeddings()
    owner = head if isinstance(head, FSDPModule) else model
    if isinstance(owner, FSDPModule):
        owner.unshard()
    if isinstance(head.weight, DTensor):
        raise RuntimeError("the output head is sharded by something else than FSDP2's data parallelism")
    return Head(head.weight, head.bias)


@torch.no_grad()
def copied_head(model: HasHead, dtype: torch.dtype, device: torch.device) -> Head:
    """A copy of the head in host memory, in the type that the model computes in. A collective.

    Args:
        model: outside of its forward and backward passes.
        dtype: of the copy.
        device: where shards are gathered.
    """
    head = model.get_output_embeddings()
    bias = None if head.bias is None else _copy(head.bias, dtype, device)
    return Head(_copy(head.weight, dtype, device), bias)


def _copy(parameter: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    value = parameter.detach().to(device)
    whole = value.full_tensor() if isinstance(value, DTensor) else value
    return whole.to(device="cpu", dtype=dtype, copy=True)
