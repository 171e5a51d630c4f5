"""The reference's final hidden states at observation positions, kept between its pass and the update.

verl runs the reference over a batch once a step for its log-probs. Its hidden states at the positions that
count stay in the host memory of the same worker: n * d numbers a row, 107 MB for 15,000 positions of a 7B
model in bfloat16. No reference logits are kept and the reference does not run a second time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from docagent_rl.losses.hidden_tap import HiddenTap
from docagent_rl.losses.positions import ObservationRule, predicting_states
from docagent_rl.training.losses.batch import read_rows, response_part
from docagent_rl.training.tensors import tensor

USE_REMOVE_PADDING = "use_remove_padding"


@dataclass
class ReferenceStates:
    """Hidden states by row.

    A row is known by its tokens and the reference's log-probs of them. The log-probs depend on the images too
    and travel to the update with the row, so that no order has to be remembered.
    """

    _rows: dict[bytes, Tensor] = field(default_factory=dict)

    def put(self, keys: Sequence[bytes], hidden: Sequence[Tensor]) -> None:
        """Keep (n_i, d) states of each row in host memory."""
        self._rows.update((key, states.cpu()) for key, states in zip(keys, hidden, strict=True))

    def get(self, keys: Sequence[bytes], device: torch.device) -> Tensor:
        """States of the rows, one after the other: (n, d) on the device.

        Raises:
            RuntimeError: the reference's pass in this worker did not see a row.
        """
        missing = sum(key not in self._rows for key in keys)
        if missing:
            raise RuntimeError(
                f"{missing} of {len(keys)} rows have no hidden states of the reference here: its pass and "
                "the update must split a batch over the workers alike (the same parallel sizes for both)"
            )
        return torch.cat([self._rows[key] for key in keys]).to(device)

    def clear(self) -> None:
        """Forget all rows."""
        self._rows.clear()

    def __len__(self) -> int:
        return len(self._rows)


def row_keys(data: TensorDict, ref_log_probs: Sequence[Tensor]) -> list[bytes]:
    """A digest of each row's tokens and of the reference's log-probs over its response."""
    pairs = zip(tensor(data, "input_ids").unbind(), ref_log_probs, strict=True)
    return [
        hashlib.blake2b(_bytes(ids.long()) + _bytes(log_probs.float()), digest_size=16).digest()
        for ids, log_probs in pairs
    ]


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()


def sample_reference(engine: Any, rule: ObservationRule, states: ReferenceStates) -> None:
    """Make every pass of the reference's engine leave its hidden states in `states`.

    Args:
        engine: an initialised `FSDPEngineWithLMHead` of verl.
        rule: the positions that count.
        states: where they go.
    """
    tap = HiddenTap(engine.module, training_only=False)
    forward_step = engine.forward_step

    def recording(micro_batch: TensorDict, loss_function: Any, forward_only: bool) -> Any:
        loss, output = forward_step(micro_batch, loss_function=loss_function, forward_only=forward_only)
        hidden = tap.take()
        rows = read_rows(micro_batch, hidden.device)
        mask = rule.observations(rows)
        packed = tu.get_non_tensor_data(micro_batch, USE_REMOVE_PADDING, True)
        chosen = predicting_states(hidden, mask, rows, packed=packed).detach()
        log_probs = response_part(output["model_output"]["log_probs"], micro_batch)
        states.put(row_keys(micro_batch, log_probs), chosen.split(mask.sum(1).tolist()))
        return loss, output

    engine.forward_step = recording
