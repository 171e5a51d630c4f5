"""Check k3 and the exact KL, their memory and time, against a computation on whole logits.

k3 uses log-probs from verl's fused kernels; the exact KL is computed tile by tile. The reference on
whole logits is written here. The check `formulas` compares every number at small sizes. On a GPU,
this check uses the head of Qwen2.5-VL-7B and 15,000 positions, as in a row of ALDEN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from docagent_rl.losses.config import KlType
from docagent_rl.losses.estimators import sampled_kl
from docagent_rl.losses.exact_kl import Head, exact_kl
from tools.gpu_check.check import Machine, Result, expect, passed
from tools.gpu_check.meter import Cost, measured

SMALL_SIZES = (256, 16_384, 64)
LARGE_SIZES = (15_000, 152_064, 3584)
"""Positions, vocabulary, width."""
GPU_ERROR = 0.1
CPU_ERROR = 1e-3
CAP = 10.0
"""The bound of k3 in verl and in ALDEN's release."""
MEMORY_SHARE = 0.5
"""Share of the memory of whole logits that the exact KL may use, at full size."""


@dataclass
class States:
    """Hidden states and heads of the policy and the reference, and a token at each position."""

    hidden: Tensor
    head: Tensor
    ref_hidden: Tensor
    ref_head: Tensor
    labels: Tensor

    def clear(self) -> None:
        """Delete the gradients."""
        self.hidden.grad = self.head.grad = None


@dataclass(frozen=True)
class Found:
    """A divergence, its memory and time, and its gradients with respect to states and head."""

    cost: Cost
    value: float
    gradients: dict[str, Tensor]

    def as_dict(self) -> dict[str, float]:
        """Return the numbers as JSON types; for gradients their norms."""
        lengths = {
            f"gradient of {part}": float(each.float().norm())
            for part, each in self.gradients.items()
        }
        return self.cost.as_dict() | {"value": self.value} | lengths


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    sizes = SMALL_SIZES if machine.gpu is None else LARGE_SIZES
    states = _states(*sizes, machine.device)
    tolerance = CPU_ERROR if machine.gpu is None else GPU_ERROR
    numbers: dict[str, Any] = {
        "sizes": dict(zip(("positions", "vocabulary", "width"), sizes, strict=True))
    }
    costs: dict[str, Cost | None] = {}
    for dense, cheap in (
        (("k3, whole logits", _dense_k3), ("k3, fused", _fused_k3)),
        (("exact, whole logits", _dense_exact), ("exact, tiles", _tiled_exact)),
    ):
        whole, own = (_try(machine, states, way) for _, way in (dense, cheap))
        for (name, _), found in ((dense, whole), (cheap, own)):
            costs[name] = None if found is None else found.cost
            numbers[name] = {"memory": "does not fit"} if found is None else found.as_dict()
        expect(own is not None, f"{cheap[0]} does not fit into the GPU's memory")
        assert own is not None
        if whole is not None:
            numbers[f"{cheap[0]}, apart"] = _agree(cheap[0], own, whole, tolerance)
    whole_cost = costs["exact, whole logits"]
    tiles = costs["exact, tiles"]
    assert tiles is not None
    if machine.gpu is not None and whole_cost is not None:
        share = tiles.peak_mib / whole_cost.peak_mib
        expect(
            share < MEMORY_SHARE, f"the exact KL takes {share:.2f} of the memory of whole logits"
        )
    against = "whole logits do not fit" if whole_cost is None else f"whole {whole_cost}"
    return passed(
        f"exact KL at {sizes[0]} x {sizes[1]}: {tiles} ({against}); k3 fused {costs['k3, fused']}",
        **numbers,
    )


def _try(machine: Machine, states: States, way: Callable[[States], Tensor]) -> Found | None:
    """Measure a way of computing a divergence, forward and backward.

    None if it does not fit into the GPU's memory.
    """
    values: list[Tensor] = []

    def once() -> None:
        states.clear()
        value = way(states)
        value.backward()
        values.append(value.detach())

    try:
        cost = measured(once, machine.device)
        assert states.hidden.grad is not None
        assert states.head.grad is not None
        return Found(
            cost, float(values[-1]), {"states": states.hidden.grad, "head": states.head.grad}
        )
    except torch.cuda.OutOfMemoryError:
        return None
    finally:
        states.clear()
        if machine.gpu is not None:
            torch.cuda.empty_cache()


def _agree(name: str, found: Found, expected: Found, tolerance: float) -> dict[str, float]:
    """Check the result, and return its relative distances from the expected one.

    Distances are compared, since norms would hide a wrong sign.
    """
    apart = {"value": abs(found.value - expected.value) / abs(expected.value)}
    for part, theirs in expected.gradients.items():
        distance = (found.gradients[part] - theirs).float().norm() / theirs.float().norm()
        apart[f"gradient of {part}"] = float(distance)
    for part, error in apart.items():
        expect(
            error <= tolerance,
            f"{name}: {part} differs from whole logits by {error:.2g}, more than {tolerance:g}",
        )
    return apart


def _states(positions: int, vocabulary: int, width: int, device: str) -> States:
    draw = torch.Generator(device).manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32

    def normal(rows: int, scale: float) -> Tensor:
        return (scale * torch.randn(rows, width, generator=draw, device=device)).to(dtype)

    ref_hidden = normal(positions, 1.0)
    ref_head = normal(vocabulary, width**-0.5)
    hidden = (ref_hidden + normal(positions, 0.2)).requires_grad_()
    labels = torch.randint(vocabulary, (positions,), generator=draw, device=device)
    return States(hidden, ref_head.clone().requires_grad_(), ref_hidden, ref_head, labels)


def _dense_k3(states: States) -> Tensor:
    with torch.no_grad():
        reference = _dense_log_probs(states.ref_hidden, states.ref_head, states.labels)
    log_ratio = reference - _dense_log_probs(states.hidden, states.head, states.labels)
    return (log_ratio.exp() - 1 - log_ratio).clamp(max=CAP).mean()


def _fused_k3(states: States) -> Tensor:
    with torch.no_grad():
        reference = _fused_log_probs(states.ref_hidden, states.ref_head, states.labels)
    log_probs = _fused_log_probs(states.hidden, states.head, states.labels)
    return sampled_kl(log_probs, reference, KlType.K3).mean()


def _tiled_exact(states: States) -> Tensor:
    return exact_kl(
        states.hidden, Head(states.head), states.ref_hidden, Head(states.ref_head)
    ).mean()


def _dense_log_probs(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    return (hidden @ head.t()).float().log_softmax(1).gather(1, labels[:, None])[:, 0]


def _fused_log_probs(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    from verl.utils.experimental.torch_functional import FusedLinearForPPO

    return FusedLinearForPPO().forward(hidden[None], head, labels[None])[0][0]


def _dense_exact(states: States) -> Tensor:
    own = (states.hidden @ states.head.t()).float().log_softmax(1)
    ref = (states.ref_hidden @ states.ref_head.t()).float().log_softmax(1)
    return (own.exp() * (own - ref)).sum(1).mean()
