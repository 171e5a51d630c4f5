"""Output heads and final hidden states of running models, which FSDP2 may have sharded."""

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from docagent_rl.losses.exact_kl import Head


class HasHead(Protocol):
    """A language model, as those of transformers are."""

    def get_output_embeddings(self) -> nn.Linear:
        """Return the layer that makes logits of hidden states."""
        ...


def gathered_head(model: HasHead) -> Head:
    """Return the head of a model in training, whole on this device and receiving gradients.

    FSDP2 shards parameters again after the forward pass; the group of the head (its own, or the
    root's where it shares its weight with the embeddings) is gathered and stays so until its
    backward pass, which would gather it anyway. A collective: all workers call it, in every
    micro-batch, between forward and backward pass.

    The divergence must be computed after every other part of the loss. Autograd then runs it first,
    and its gradient of the head is there when FSDP2 reduces the head's gradients.

    Raises:
        RuntimeError: the head is sharded in a way that FSDP2 does not undo.
    """
    head = model.get_output_embeddings()
    owner = head if isinstance(head, FSDPModule) else model
    if isinstance(owner, FSDPModule):
        owner.unshard()
    if isinstance(head.weight, DTensor):
        raise RuntimeError(
            "the output head is sharded by something else than FSDP2's data parallelism"
        )
    return Head(head.weight, head.bias)


@torch.no_grad()
def copied_head(model: HasHead, dtype: torch.dtype, device: torch.device) -> Head:
    """Copy the head to host memory, in `dtype`, outside of the model's passes. A collective.

    Shards are gathered on `device`.
    """
    head = model.get_output_embeddings()
    bias = None if head.bias is None else _copy(head.bias, dtype, device)
    return Head(_copy(head.weight, dtype, device), bias)


def _copy(parameter: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    value = parameter.detach().to(device)
    whole = value.full_tensor() if isinstance(value, DTensor) else value
    return whole.to(device="cpu", dtype=dtype, copy=True)


class HasBase(Protocol):
    """A model with a head, as those of transformers are."""

    @property
    def base_model(self) -> nn.Module:
        """The model below its head."""
        ...


class HiddenTap:
    """The last output of a transformers model's base: what the output head reads, with its
    gradient.

    A forward hook on `model.base_model`: it sees the states with verl's fused kernels too, which
    never call the head. With `training_only`, passes without gradients are ignored.
    """

    def __init__(self, model: HasBase, *, training_only: bool) -> None:
        self._training_only = training_only
        self._hidden: Tensor | None = None
        model.base_model.register_forward_hook(self._keep)

    def take(self) -> Tensor:
        """Return the states of the last pass, once: (1, l, d) for packed rows, else (b, l, d).

        Raises:
            RuntimeError: no pass has run since the last call.
        """
        if self._hidden is None:
            raise RuntimeError("the model's base has not run: its hidden states cannot be taken")
        hidden = self._hidden
        self._hidden = None
        return hidden

    def _keep(self, _module: nn.Module, _args: Any, output: Any) -> None:
        if torch.is_grad_enabled() or not self._training_only:
            self._hidden = output[0]
