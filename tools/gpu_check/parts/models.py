"""Small models of three families as verl's workers compute them, against transformers itself, row by row.

Each family's rows hold pictures of several sizes, stored as patches of bytes, and text. The actor is computed
twice: padded in float32, where every number has to agree, and with the settings of recipes (bfloat16, packed
rows, checkpointing, fused log-probs, dynamic micro-batches), where what agrees is what bfloat16 leaves. The
offloaded reference and a critic follow for the first family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tensordict import TensorDict
from torch import Tensor
from torch.nn.functional import cosine_similarity

from docagent_rl.lab.tiny.model import build_tiny_model
from tools.gpu_check.attention import FLASH, packed_attention
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.reference import Reference, reference
from tools.gpu_check.rows import TEMPERATURE, as_batch, make_rows
from tools.gpu_check.workers import VALUE, Settings, infer, make_worker, update

FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3")
FUSED = "torch"
"""verl's default backend of fused log-probs."""
PARTS = ("visual", "language")
"""Parameters whose gradients are compared together: a wrong tower would not show among the many others."""


@dataclass(frozen=True)
class Bound:
    """Changes that a number format may make.

    Attributes:
        mean: of log-probs, in nats a token.
        cosine: least, of a part's gradient with the reference's.
        norm: of its norm, as a share.
    """

    mean: float
    cosine: float
    norm: float


EXACT, ROUNDED = Bound(1e-4, 0.9999, 1e-3), Bound(0.05, 0.99, 0.05)
"""In float32; in bfloat16, whose 8 bits leave logits of a deviation of some units about .02 apart."""


@dataclass(frozen=True)
class Family:
    """A small model on the disk, a batch for it, and what transformers makes of its rows."""

    path: Path
    batch: TensorDict
    exact: Reference


def run(machine: Machine, folder: Path, families: Sequence[str] = FAMILIES) -> Result:
    """See the module."""
    # all references before any worker, and what is padded before what is packed: verl changes the attention
    # of classes for good
    made = {name: _family(name, machine, folder) for name in families}
    lean, numbers = settings_of_recipes(machine), {}
    first = made[families[0]]
    values = infer(make_worker(first.path, Settings(lr=0.0), VALUE), first.batch)
    ways = {"padded fp32": (Settings(lr=0.0), EXACT), "packed bf16": (lean, ROUNDED)}
    for name, family in made.items():
        for way, (settings, bound) in ways.items():
            numbers[f"{name}, {way}"] = _compare(f"{name}, {way}", family, settings, bound)
    numbers["reference"] = {"mean": _offloaded(first, lean)}
    numbers["critic"] = {"mean": _critic(first, lean, values)}
    worst = max(each["mean"] for name, each in numbers.items() if "fp32" in name)
    rounded = max(each["mean"] for name, each in numbers.items() if "bf16" in name)
    text = (
        f"{', '.join(families)}: log-probs {worst:.1g} nats from transformers' in fp32, {rounded:.1g} in bf16"
    )
    return passed(text, **numbers)


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


def _family(name: str, machine: Machine, folder: Path) -> Family:
    from verl.utils import hf_processor, hf_tokenizer

    path = build_tiny_model(folder / name, family=name)
    processor = hf_processor(str(path)) or hf_tokenizer(str(path))
    rows = make_rows(processor)
    exact = reference(path, rows, processor, TEMPERATURE, machine.device)
    return Family(path, as_batch(rows, processor), exact)


def _compare(name: str, family: Family, settings: Settings, bound: Bound) -> dict[str, float]:
    worker = make_worker(family.path, settings)
    found = infer(worker, family.batch)
    _, _, gradients = update(worker, family.batch)
    errors = {"mean": mean_error(name, found, family.exact.log_probs, bound.mean)}
    expected = family.exact.gradients
    expect(set(gradients) == set(expected), f"{name}: gradients of {sorted(set(gradients) ^ set(expected))}")
    for part in PARTS:
        names = sorted(each for each in expected if ("visual" in each) == (part == "visual"))
        if names:
            pair = (torch.cat([side[each].flatten() for each in names]) for side in (gradients, expected))
            errors |= _direction(f"{name}, {part}", *pair, bound)
    return errors


def mean_error(name: str, found: Tensor, expected: Tensor, bound: float) -> float:
    """Mean distance of finite numbers, and nothing above its bound."""
    expect(found.shape == expected.shape, f"{name}: {len(found)} outputs, {len(expected)} expected")
    expect(bool(torch.isfinite(found).all()), f"{name}: outputs that are not finite")
    error = float((found.double() - expected).abs().mean())
    expect(error < bound, f"{name}: log-probs are {error:.2g} nats apart on average, not below {bound:g}")
    return error


def _direction(name: str, found: Tensor, expected: Tensor, bound: Bound) -> dict[str, float]:
    cosine = float(cosine_similarity(found.double(), expected.double(), dim=0))
    norm = float(found.double().norm() / expected.double().norm())
    expect(cosine > bound.cosine, f"{name}: the gradient points elsewhere (cosine {cosine:.5f})")
    expect(abs(norm - 1) < bound.norm, f"{name}: the gradient's norm is {norm:.4f} of what it should be")
    return {f"cosine, {name}": cosine, f"norm, {name}": norm}


def _offloaded(family: Family, lean: Settings) -> float:
    worker = make_worker(family.path, replace(lean, forward_only=True))
    return mean_error("reference", infer(worker, family.batch), family.exact.log_probs, ROUNDED.mean)


def _critic(family: Family, lean: Settings, values: Tensor) -> float:
    """Recipes' settings against padded float32: the passes are the actor's, only the head is another."""
    packed = make_worker(family.path, replace(lean, fused=None), VALUE)
    return mean_error("critic", infer(packed, family.batch), values.double(), ROUNDED.mean)
