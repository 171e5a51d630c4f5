"""Output heads and final hidden states of running models, which FSDP2 may have sharded."""

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from docagent_rl.losses.exact_kl import Head


class HasHead(Protocol):
    """A language model with an output head, such as those of transformers."""

    def get_output_embeddings(self) -> nn.Linear:
        """Return the layer that computes logits from hidden states."""
        ...


def gathered_head(model: HasHead) -> Head:
    """Return the head of a model in training, unsharded on this device and receiving gradients.

    FSDP2 reshards parameters after the forward pass. This function gathers the parameter group of
    the head (its own, or the root's if it shares its weight with the embeddings) again; the group
    stays unsharded until its backward pass, which would gather it anyway. This is a collective: all
    workers have to call it, in every micro-batch, between the forward and the backward pass.

    The divergence must be computed after all other parts of the loss. Autograd then processes it
    first, so that its gradient is included when FSDP2 reduces the head's gradients.

    Raises:
        RuntimeError: the head is sharded by something other than FSDP2.
    """
    head = model.get_output_embeddings()
    owner = head if isinstance(head, FSDPModule) else model
    if isinstance(owner, FSDPModule):
        owner.unshard()
    if isinstance(head.weight, DTensor):
        raise RuntimeError(
            "the output head is sharded by something other than FSDP2's data parallelism"
        )
    return Head(head.weight, head.bias)


@torch.no_grad()
def copied_head(model: HasHead, dtype: torch.dtype, device: torch.device) -> Head:
    """Copy the head to host memory, in `dtype`, outside of the model's passes.

    This is a collective; shards are gathered on `device`.
    """
    head = model.get_output_embeddings()
    bias = None if head.bias is None else _copy(head.bias, dtype, device)
    return Head(_copy(head.weight, dtype, device), bias)


def _copy(parameter: torch.Tensor, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    value = parameter.detach().to(device)
    whole = value.full_tensor() if isinstance(value, DTensor) else value
    return whole.to(device="cpu", dtype=dtype, copy=True)


class HasBase(Protocol):
    """A model with a base below its head, such as those of transformers."""

    @property
    def base_model(self) -> nn.Module:
        """The model below its head."""
        ...


class HiddenTap:
    """Captures the hidden states that the output head of a transformers model reads, with
    gradients.

    It is a forward hook on `model.base_model`, so that it also works with verl's fused kernels,
    which never call the head. With `training_only`, passes without gradients are ignored.
    """

    def __init__(self, model: HasBase, *, training_only: bool) -> None:
        self._training_only = training_only
        self._hidden: Tensor | None = None
        model.base_model.register_forward_hook(self._keep)

    def take(self) -> Tensor:
        """Return and release the states of the last pass: (1, l, d) for packed rows, else (b, l,
        d).

        Raises:
            RuntimeError: no pass has run since the last call.
        """
        if self._hidden is None:
            raise RuntimeError("the model's base has not run, so there are no hidden states")
        hidden = self._hidden
        self._hidden = None
        return hidden

    def _keep(self, _module: nn.Module, _args: Any, output: Any) -> None:
        if torch.is_grad_enabled() or not self._training_only:
            self._hidden = output[0]
