"""Log-probabilities without flash-attn, and without a loop over tokens.

Upstream: verl 0.9.1, `verl/utils/torch_functional.py`. Without flash-attn's cross entropy
`logprobs_from_logits` is `logprobs_from_logits_v2`, which loops over the positions of a pack: for
15,000 positions, it launches each of its kernels 15,000 times, saves a bf16 copy of the logits for
the backward pass, and rounds log-probabilities to bf16. `log_probs_from_logits_response_rmpad` and
`log_probs_from_logits_all_rmpad` import flash-attn's padding functions, although verl has
replacements for them (`verl/utils/attention_utils.py`).

Here log-probabilities are computed by `docagent_rl/training/attention.py`, in float32 as with
flash-attn, and padding uses verl's replacements. `VERL_DISABLE_FLASH_ATTN_CE` has no effect, as no
Triton kernel is involved.

No longer needed once verl's own implementation without flash-attn works in blocks.
"""

from __future__ import annotations

from types import ModuleType

import torch
from torch import Tensor

from docagent_rl.training.attention import log_probs_of_labels
from docagent_rl.training.hardware import without_flash_attn
from docagent_rl.training.patching import TRAINING, Patch, replace


def logprobs_from_logits(logits: Tensor, labels: Tensor, inplace_backward: bool = True) -> Tensor:
    """Return the log-probabilities of labels (...), given logits (..., v)."""
    return log_probs_of_labels(logits, labels, inplace_backward)


def log_probs_from_logits_response_rmpad(
    input_ids: Tensor, attention_mask: Tensor, logits_rmpad: Tensor, response_length: int
) -> Tensor:
    """Return the response's log-probabilities (b, response_length) from logits of a pack (tokens,
    v).
    """
    from verl.utils.attention_utils import unpad_input

    packed, indices, *_ = unpad_input(input_ids.unsqueeze(-1), attention_mask=attention_mask)
    batch, length = input_ids.shape
    return log_probs_from_logits_all_rmpad(
        packed.transpose(0, 1), logits_rmpad, indices, batch, length, response_length
    )


def log_probs_from_logits_all_rmpad(
    input_ids_rmpad: Tensor,
    logits_rmpad: Tensor,
    indices: Tensor,
    batch_size: int,
    seqlen: int,
    response_length: int,
) -> Tensor:
    """Return the response's log-probabilities (b, response_length) from a pack of tokens (1,
    tokens).
    """
    from verl.utils.attention_utils import pad_input

    labels = torch.roll(input_ids_rmpad.squeeze(0), shifts=-1, dims=0)
    found = log_probs_of_labels(logits_rmpad, labels)
    padded = pad_input(found.unsqueeze(-1), indices=indices, batch=batch_size, seqlen=seqlen)
    return padded.squeeze(-1)[:, -response_length - 1 : -1]


def _apply(module: ModuleType) -> None:
    if module.NPU_CROSS_ENTROPY_LOSS_AVAILABLE:
        return
    for function in (
        logprobs_from_logits,
        log_probs_from_logits_response_rmpad,
        log_probs_from_logits_all_rmpad,
    ):
        replace(module, function.__name__, function)


PATCH = Patch(
    name="log_probs_without_loop",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/torch_functional.py::logprobs_from_logits",
    reason="without flash-attn log-probabilities are computed position by position",
    target_module="verl.utils.torch_functional",
    apply=_apply,
    processes=TRAINING,
    needed=without_flash_attn,
)
