"""A small Qwen2.5-VL as actor, reference and critic: the settings of recipes against padded float32.

The actor in bfloat16 has packed rows, checkpointing, fused log-probs and dynamic micro-batches; the reference
is offloaded besides. Forward and backward pass go through verl's FSDP2 engine.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import cosine_similarity
from verl.workers.engine_workers import TrainingWorker

from tools.gpu_check.attention import FLASH, packed_attention
from tools.gpu_check.batches import ROWS, Pictures, make_batch
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.models import SMALL, configuration, write_checkpoint
from tools.gpu_check.workers import POLICY, VALUE, Settings, infer, make_worker, update

Numbers = tuple[Tensor, float, float, Tensor]

FUSED = "torch"
"""verl's default backend of fused log-probs."""
MEAN_ERROR, COSINE, NORM = 0.03, 0.99, 0.03
"""Changes that bfloat16 may make: of outputs, as a share of their deviation; of the gradient's direction
and its norm."""


def run(machine: Machine, folder: Path) -> Result:
    """See the module."""
    config = configuration(SMALL)
    path = write_checkpoint(folder / "untied", config)
    tied = write_checkpoint(folder / "tied", configuration(SMALL, tied=True))
    batches = {kind: make_batch(ROWS[kind], config) for kind in Pictures}
    cases = {"actor": (path, POLICY), "critic": (path, VALUE), "tied actor": (tied, POLICY)}
    lean = settings_of_recipes(machine)
    errors: dict[str, Any] = {}
    # before any packed worker: verl changes the attention of the class for good
    padded = {
        name: _numbers(make_worker(where, Settings(lr=0.0), role), batches)
        for name, (where, role) in cases.items()
    }
    for name, (where, role) in cases.items():
        exact = padded[name]
        chosen = lean if role == POLICY else replace(lean, fused=None)
        found = _numbers(make_worker(where, chosen, role), batches)
        errors |= {
            f"{name}, {kind}": _compare(f"{name} with {kind}", found[kind], exact[kind]) for kind in Pictures
        }
        if name == "actor":
            reference = make_worker(where, replace(lean, forward_only=True))
            for kind, batch in batches.items():
                error = _mean_error(infer(reference, batch), exact[kind][0])
                expect(
                    error < MEAN_ERROR, f"reference with {kind}: log-probs are {error:.4f} apart on average"
                )
                errors[f"reference, {kind}"] = {"mean error": error}
    worst = max(each["mean error"] for each in errors.values())
    text = (
        f"bf16, packed, checkpointing, fused, dynamic: {len(errors)} cases, outputs at most {worst:.4f} apart"
    )
    return passed(text, **errors)


def settings_of_recipes(machine: Machine) -> Settings:
    """Settings that recipes run with; the learning rate is 0.

    Raises:
        CheckError: there is no attention over packed rows: no recipe would start here.
    """
    function, way = packed_attention()
    expect(function is not None, f"verl's forward of Qwen2.5-VL has no attention over packed rows ({way})")
    return Settings(
        bf16=True, remove_padding=True, checkpointing=True, fused=FUSED, attention=FLASH, tokens=256, lr=0.0
    )


def _numbers(made: TrainingWorker, batches: dict[Pictures, TensorDict]) -> dict[Pictures, Numbers]:
    """Outputs, loss, gradient's norm and gradient for each batch; the learning rate is 0."""
    return {kind: (infer(made, batch), *update(made, batch)) for kind, batch in batches.items()}


def _compare(name: str, found: Numbers, expected: Numbers) -> dict[str, float]:
    error = _mean_error(found[0], expected[0])
    cosine = float(cosine_similarity(found[3], expected[3], dim=0))
    norm = found[2] / expected[2]
    numbers = {"mean error": error, "cosine of gradients": cosine, "ratio of norms": norm}
    expect(error < MEAN_ERROR, f"{name}: outputs are {error:.4f} apart on average")
    expect(cosine > COSINE, f"{name}: the gradient points elsewhere (cosine {cosine:.4f})")
    expect(abs(norm - 1) < NORM, f"{name}: the gradient's norm is {norm:.3f} of what it should be")
    return numbers


def _mean_error(found: Tensor, expected: Tensor) -> float:
    expect(found.shape == expected.shape, f"{tuple(found.shape)} outputs, {tuple(expected.shape)} expected")
    expect(bool(torch.isfinite(found).all()), "outputs that are not finite")
    return float((found - expected).abs().mean() / expected.std())
