"""Run a transformers model on one row at a time, in float32: the reference for verl's engines.

It uses no code of verl or the plugin. Pictures are the floats that the image processor returns, and
positions are the model's own. Attention is transformers' plain implementation, log-probs are a
`log_softmax` in float64, and gradients are torch's.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

if TYPE_CHECKING:
    from tools.gpu_check.rows import ShownRow

LOSS_SCALE = 100
"""The divisor of `workers.surrogate`."""

OF_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")
"""Fields that a processor derives from the text, in addition to the pictures."""


@dataclass(frozen=True)
class Reference:
    """The log-probs of all sampled tokens, float64 of shape (n,), and each parameter's gradient.

    Both are on the CPU.
    """

    log_probs: Tensor
    gradients: dict[str, Tensor]


def reference(
    path: Path, rows: list[ShownRow], processor: Any, temperature: float, device: str
) -> Reference:
    """Return the log-probs of rows, and the gradients of `-sum(noise * log_probs) / LOSS_SCALE`."""
    images = getattr(processor, "image_processor", None)
    kind = AutoModelForCausalLM if images is None else AutoModelForImageTextToText
    model = (
        kind.from_pretrained(path, dtype=torch.float32, attn_implementation="eager")
        .to(device)
        .eval()
    )
    by_torch(model)
    found = []
    for row in rows:
        log_probs = _log_probs(model, row, processor, temperature, device)
        weight = row.noise[1:][row.sampled[1:]].to(device).double()
        (-(weight * log_probs).sum() / LOSS_SCALE).backward()
        found.append(log_probs.detach().cpu())
    gradients = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return Reference(torch.cat(found), gradients)


def by_torch(model: Any) -> None:
    """Make a model's delta layers compute with torch in float32, whatever kernels are installed.

    The kernels of flash-linear-attention multiply float32 numbers as TF32.
    """
    for module in model.modules():
        if hasattr(module, "chunk_gated_delta_rule"):
            source = sys.modules[type(module).__module__]
            module.chunk_gated_delta_rule = source.torch_chunk_gated_delta_rule
            module.causal_conv1d_fn = None


def _log_probs(
    model: Any, row: ShownRow, processor: Any, temperature: float, device: str
) -> Tensor:
    """Return the log-probs of the row's sampled tokens, float64."""
    ids = row.ids[None].to(device)
    shown = {}
    if row.pictures:
        shown = _features(row, processor, device)
    if "image_grid_thw" in shown:
        kinds = (ids == processor.image_token_id).long()
        positions, _ = model.model.get_rope_index(
            ids, kinds, image_grid_thw=shown["image_grid_thw"]
        )
        shown |= {"position_ids": positions, "mm_token_type_ids": kinds}
    logits = model(input_ids=ids, use_cache=False, **shown).logits[0, :-1].double() / temperature
    chosen = logits.log_softmax(1).gather(1, ids[0, 1:, None])[:, 0]
    return chosen[row.sampled[1:].to(device)]


def _features(row: ShownRow, processor: Any, device: str) -> dict[str, Any]:
    """Return the fields for a row's pictures, as the model's own processor makes them."""
    text = processor.image_token * len(row.pictures)
    made = processor(text=[text], images=row.pictures, return_tensors="pt").to(device)
    return {name: value for name, value in made.items() if name not in OF_TEXT}
