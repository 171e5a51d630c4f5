"""The exact observation KL inside verl's FSDP2 engine.

Memory on the device while a micro-batch with n positions is updated, in bytes for a model of width d,
vocabulary v and 2-byte weights, beyond what verl itself holds: the reference's head (2vd), the policy's
head, gathered earlier than its backward pass would (2vd), its gradient (2vd), hidden states of both models
(4nd), a float32 gradient of them (4nd), and tiles. For a 7B model (v 152,064, d 3,584) and 15,000 positions
that is 3.3 GB for the heads, 0.4 GB for states and 0.3 GB for tiles of the default size; one matrix of
logits in float32 would take 9.1 GB.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol, cast

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from docagent_rl.losses.config import ObservationKl
from docagent_rl.losses.drift import hidden_drift
from docagent_rl.losses.exact_kl import exact_kl
from docagent_rl.losses.heads import HasHead, gathered_head
from docagent_rl.losses.hidden_tap import HasBase, HiddenTap
from docagent_rl.losses.positions import Rows, predicting_states
from docagent_rl.losses.tiles import Head
from docagent_rl.training.losses.reference import USE_REMOVE_PADDING, ReferenceStates, row_keys
from docagent_rl.training.losses.visual_kl import ExactValues
from docagent_rl.training.tensors import tensor


class LanguageModel(HasBase, HasHead, Protocol):
    """What is read of the policy."""


class EngineExactTerm:
    """Reads hidden states from the running policy, and those of the reference from its last pass.

    Args:
        config: sizes of the tiles.
        model: the policy, sharded by FSDP2.
        states: what the reference left (`losses.reference.sample_reference`).
        ref_head: the reference's head, in host memory.
        vocabulary: entries that count; rows beyond the tokenizer pad the vocabulary and are never sampled.
    """

    def __init__(
        self,
        config: ObservationKl,
        model: LanguageModel,
        states: ReferenceStates,
        ref_head: Head,
        vocabulary: int,
    ) -> None:
        self._config, self._model, self._states = config, model, states
        self._ref_head, self._vocabulary = ref_head, vocabulary
        self._resident: Head | None = None
        self._tap = HiddenTap(model, training_only=True)

    @contextmanager
    def update(self, device: torch.device) -> Generator[None]:
        """Hold the reference's head on the device; afterwards forget the reference's states."""
        bias = self._ref_head.bias
        self._resident = Head(self._ref_head.weight.to(device), None if bias is None else bias.to(device))
        try:
            yield
        finally:
            self._resident = None
            self._states.clear()

    def __call__(self, data: TensorDict, rows: Rows, mask: Tensor) -> ExactValues:
        """See `losses.visual_kl.ExactTerm`.

        Raises:
            RuntimeError: outside of `update`, or the reference's states of a row are missing.
        """
        if self._resident is None:
            raise RuntimeError("the exact KL is computed within an update of the policy")
        head = gathered_head(self._model)
        packed = tu.get_non_tensor_data(data, USE_REMOVE_PADDING, True)
        hidden = predicting_states(self._tap.take(), mask, rows, packed=packed)
        ref_hidden = self._states.get(row_keys(data, tensor(data, "ref_log_prob").unbind()), hidden.device)
        kl = exact_kl(
            hidden,
            head,
            ref_hidden,
            self._resident,
            temperature=_temperature(data, mask),
            vocabulary=min(self._vocabulary, head.weight.shape[0]),
            token_chunk=self._config.token_chunk,
            vocabulary_chunk=self._config.vocabulary_chunk,
        )
        return ExactValues(kl, *hidden_drift(hidden, ref_hidden))


def _temperature(data: TensorDict, mask: Tensor) -> float | Tensor:
    """Of all positions, or (n,) where rows have temperatures of their own."""
    temperature = cast("float | Tensor", data["temperature"])
    if not isinstance(temperature, Tensor) or temperature.ndim == 0:
        return float(temperature)
    return temperature.to(mask.device)[mask.nonzero(as_tuple=True)[0]]
