"""Takes final hidden states out of a running model, whatever its head does with them."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn


class HasBase(Protocol):
    """A model with a head, as those of transformers are."""

    @property
    def base_model(self) -> nn.Module:
        """The model below its head."""
        ...


class HiddenTap:
    """Keeps the last output of a transformers model's base: what the output head reads, with its gradient.

    A forward hook on `model.base_model`: it sees the states with verl's fused kernels too, which never call
    the head.

    Args:
        model: a `PreTrainedModel`; FSDP2 may have sharded it.
        training_only: ignore passes without gradients, whose states nobody would take.
    """

    def __init__(self, model: HasBase, *, training_only: bool) -> None:
        self._training_only = training_only
        self._hidden: Tensor | None = None
        model.base_model.register_forward_hook(self._keep)

    def take(self) -> Tensor:
        """The states of the last pass, once: (1, l, d) for packed rows, else (b, l, d).

        Raises:
            RuntimeError: no pass has run since the last call.
        """
        if self._hidden is None:
            raise RuntimeError("the model's base has not run: its hidden states cannot be taken")
        hidden, self._hidden = self._hidden, None
        return hidden

    def _keep(self, _module: nn.Module, _args: Any, output: Any) -> None:
        if torch.is_grad_enabled() or not self._training_only:
            self._hidden = output[0]
