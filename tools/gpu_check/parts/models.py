"""Check small models of five families in verl's workers against transformers on single rows.

The rows of each family contain text, and pictures of several sizes, stored as patches of bytes. The
actor is computed with padding in float32, where every number must agree, and with the settings of
recipes (bfloat16, packed rows, checkpointing, fused log-probs, dynamic micro-batches), where
numbers must agree as far as bfloat16 allows. That tolerance could hide that a row sees a little of
another one, so there are two more comparisons. In the first, the first row of a pack is replaced,
and no other row may change. The second compares packed rows in float32, on a CPU only, where
attention supports float32. The offloaded reference and a critic are checked last, for the first
family.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from tools.gpu_check.attention import FLASH, packed_attention
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.layouts import (
    FUSED,
    UNSEEN,
    SmallFamily,
    by_part,
    changes_of_others,
    measure,
    small_family,
)
from tools.gpu_check.reference import by_torch
from tools.gpu_check.workers import VALUE, Settings, infer, make_worker, update

FAMILIES = ("qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v", "qwen3")


@dataclass(frozen=True)
class Bound:
    """The differences that a number format may cause.

    Attributes:
        mean: the largest mean difference of log-probs, in nats per token.
        cosine: the smallest cosine between the gradient of a part and the reference's.
        norm: the largest relative difference of a gradient's norm.
    """

    mean: float
    cosine: float
    norm: float


EXACT = Bound(1e-4, 0.9999, 1e-3)
ROUNDED = Bound(0.05, 0.99, 0.05)
"""The bounds in float32 and in bfloat16. With the 8 bits of bfloat16, logits with a deviation of a
few units differ by about .02.
"""
CARRIED = {"qwen3_5": replace(ROUNDED, cosine=0.95)}
"""The bounds of families whose layers carry a state over all tokens, in which rounding errors add
up. In bfloat16, padded rows have the same cosine, .973, as packed ones. A separate comparison
checks for all families that rows do not see each other.
"""


def run(machine: Machine, folder: Path, families: Sequence[str] = FAMILIES) -> Result:
    """Run the check that the module describes."""
    # all references before any worker, and padded layouts before packed ones, since verl changes
    # the attention of classes permanently
    made = {name: small_family(name, machine.device, folder) for name in families}
    lean = settings_of_recipes(machine)
    numbers = {}
    first = made[families[0]]
    values = infer(make_worker(first.path, Settings(lr=0.0), VALUE), first.batch)
    for name, family in made.items():
        numbers[f"{name}, padded fp32"] = _compare(
            f"{name}, padded fp32", family, Settings(lr=0.0), EXACT
        )
        numbers[f"{name}, others of a pack"] = {"most": _unseen(name, family, lean)}
        if machine.gpu is None:
            numbers[f"{name}, packed fp32"] = _packed(f"{name}, packed fp32", family, lean)
        rounded = CARRIED.get(name, ROUNDED)
        numbers[f"{name}, packed bf16"] = _compare(f"{name}, packed bf16", family, lean, rounded)
    numbers["reference"] = {"mean": _offloaded(first, lean)}
    numbers["critic"] = {"mean": _critic(first, lean, values)}
    worst = max(each["mean"] for name, each in numbers.items() if "padded fp32" in name)
    in_bf16 = max(each["mean"] for name, each in numbers.items() if "bf16" in name)
    text = (
        f"{', '.join(families)}: log-probs differ from transformers' by {worst:.1g} nats in fp32, "
        f"{in_bf16:.1g} in bf16"
    )
    return passed(text, **numbers)


def settings_of_recipes(machine: Machine) -> Settings:
    """Return the settings with which recipes run, but with a learning rate of 0.

    Raises:
        CheckError: there is no attention over packed rows, so no recipe would start here.
    """
    function, way = packed_attention()
    expect(
        function is not None,
        f"verl's forward pass of Qwen2.5-VL has no attention over packed rows ({way})",
    )
    return Settings(
        bf16=True,
        remove_padding=True,
        checkpointing=True,
        fused=FUSED,
        attention=FLASH,
        tokens=400,
        lr=0.0,
    )


def _compare(name: str, family: SmallFamily, settings: Settings, bound: Bound) -> dict[str, float]:
    worker = make_worker(family.path, settings)
    if not settings.bf16:
        by_torch(worker.engine.module)
    found = infer(worker, family.batch)
    _, _, gradients = update(worker, family.batch)
    errors = {"mean": mean_error(name, found, family.exact.log_probs, bound.mean)}
    expected = family.exact.gradients
    expect(
        set(gradients) == set(expected),
        f"{name}: gradients of {sorted(set(gradients) ^ set(expected))}",
    )
    for part, pair in by_part(gradients, expected).items():
        errors |= _direction(f"{name}, {part}", *pair, bound)
    return errors


def _unseen(name: str, family: SmallFamily, lean: Settings) -> float:
    """Return the largest change of a row when the first row of its pack changes, and check it."""
    changes = changes_of_others(family, lean)
    for number, change in enumerate(changes, start=2):
        text = (
            f"{name}: row {number} of a pack sees the first one, since it changes with its tokens"
        )
        expect(change <= UNSEEN, f"{text} by {change:.2g} nats, more than {UNSEEN:g}")
    return max(changes)


def _packed(name: str, family: SmallFamily, lean: Settings) -> dict[str, float]:
    found = measure(family, replace(lean, bf16=False, tokens=sum(family.lengths)))
    problems = found.problems()
    expect(not problems, f"{name}: {'; '.join(problems)}")
    return {"most": max(found.rows)} | {
        f"cosine, {part}": value for part, value in found.cosines.items()
    }


def mean_error(name: str, found: Tensor, expected: Tensor, bound: float) -> float:
    """Return the mean difference of finite numbers, which must be below its bound."""
    expect(found.shape == expected.shape, f"{name}: {len(found)} outputs, {len(expected)} expected")
    expect(bool(torch.isfinite(found).all()), f"{name}: outputs that are not finite")
    error = float((found.double() - expected).abs().mean())
    expect(
        error < bound,
        f"{name}: log-probs differ by {error:.2g} nats on average, not less than {bound:g}",
    )
    return error


def _direction(name: str, found: Tensor, expected: Tensor, bound: Bound) -> dict[str, float]:
    cosine = float(cosine_similarity(found, expected, dim=0))
    norm = float(found.norm() / expected.norm())
    expect(
        cosine > bound.cosine, f"{name}: the gradient has another direction (cosine {cosine:.5f})"
    )
    expect(
        abs(norm - 1) < bound.norm,
        f"{name}: the gradient's norm is {norm:.4f} of the expected one",
    )
    return {f"cosine, {name}": cosine, f"norm, {name}": norm}


def _offloaded(family: SmallFamily, lean: Settings) -> float:
    worker = make_worker(family.path, replace(lean, forward_only=True))
    return mean_error(
        "reference", infer(worker, family.batch), family.exact.log_probs, ROUNDED.mean
    )


def _critic(family: SmallFamily, lean: Settings, values: Tensor) -> float:
    """Compare a critic with the settings of recipes with one in padded float32.

    Its passes are the actor's; only the head differs.
    """
    packed = make_worker(family.path, replace(lean, fused=None), VALUE)
    return mean_error("critic", infer(packed, family.batch), values.double(), ROUNDED.mean)
