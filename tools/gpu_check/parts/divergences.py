"""k3 and the exact KL, and what they cost, against whole logits of the policy and the reference.

k3 reads log-probs of verl's fused kernels; the exact KL is computed tile by tile. What they are compared with
is written here, on whole logits; `formulas` compares every number, at small sizes. On a GPU at the head of
Qwen2.5-VL-7B and 15,000 positions, as a row of ALDEN has them.
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

SMALL_SIZES, LARGE_SIZES = (256, 16_384, 64), (15_000, 152_064, 3584)
"""Positions, vocabulary, width."""
GPU_ERROR, CPU_ERROR = 0.1, 1e-3
CAP = 10.0
"""The bound of k3 in verl and ALDEN's release."""
MEMORY_SHARE = 0.5
"""Share of the memory of whole logits that the exact KL may take, at full size."""


@dataclass
class States:
    """Hidden states and heads of the policy and the reference, and a token at each position."""

    hidden: Tensor
    head: Tensor
    ref_hidden: Tensor
    ref_head: Tensor
    labels: Tensor

    def clear(self) -> None:
        """Forget gradients."""
        self.hidden.grad = self.head.grad = None


def run(machine: Machine, folder: Path) -> Result:
    """See the module."""
    sizes = SMALL_SIZES if machine.gpu is None else LARGE_SIZES
    states = _states(*sizes, machine.device)
    ways: dict[str, Callable[[States], Tensor]] = {
        "k3, whole logits": _dense_k3,
        "k3, fused": _fused_k3,
        "exact, whole logits": _dense_exact,
        "exact, tiles": lambda s: exact_kl(s.hidden, Head(s.head), s.ref_hidden, Head(s.ref_head)).mean(),
    }
    numbers: dict[str, Any] = {"sizes": dict(zip(("positions", "vocabulary", "width"), sizes, strict=True))}
    costs: dict[str, Cost | None] = {}
    values: dict[str, tuple[float, float, float]] = {}
    for name, way in ways.items():
        cost = _try(machine, states, way, values, name)
        costs[name] = cost
        numbers[name] = {"memory": "does not fit"} if cost is None else cost.as_dict() | _named(values[name])
    tolerance = CPU_ERROR if machine.gpu is None else GPU_ERROR
    for kind, cheap in (("k3", "k3, fused"), ("exact", "exact, tiles")):
        expect(costs[cheap] is not None, f"{cheap} does not fit into the GPU's memory")
        if costs[f"{kind}, whole logits"] is not None:
            _agree(cheap, values[cheap], values[f"{kind}, whole logits"], tolerance)
    whole, tiles = costs["exact, whole logits"], costs["exact, tiles"]
    assert tiles is not None
    if machine.gpu is not None and whole is not None:
        share = tiles.peak_mib / whole.peak_mib
        expect(share < MEMORY_SHARE, f"the exact KL takes {share:.2f} of the memory of whole logits")
    against = "whole logits do not fit" if whole is None else f"whole {whole}"
    return passed(
        f"exact KL at {sizes[0]} x {sizes[1]}: {tiles} ({against}); k3 fused {costs['k3, fused']}", **numbers
    )


def _try(
    machine: Machine, states: States, way: Callable[[States], Tensor], values: dict, name: str
) -> Cost | None:
    """Measure what a way costs and gives, forward and backward; None if the GPU's memory is too small."""

    def once() -> None:
        states.clear()
        value = way(states)
        value.backward()
        assert states.hidden.grad is not None
        assert states.head.grad is not None
        norms = [float(grad.float().norm()) for grad in (states.hidden.grad, states.head.grad)]
        values[name] = (float(value.detach()), *norms)

    try:
        return measured(once, machine.device)
    except torch.cuda.OutOfMemoryError:
        return None
    finally:
        states.clear()
        if machine.gpu is not None:
            torch.cuda.empty_cache()


def _named(values: tuple[float, float, float]) -> dict[str, float]:
    return dict(zip(("value", "gradient of states", "gradient of head"), values, strict=True))


def _agree(name: str, found: tuple[float, ...], expected: tuple[float, ...], tolerance: float) -> None:
    for part, ours, theirs in zip(
        ("value", "gradient of states", "gradient of head"), found, expected, strict=True
    ):
        expect(
            abs(ours - theirs) <= tolerance * abs(theirs),
            f"{name}: {part} {ours:.5g}, whole logits {theirs:.5g}",
        )


def _states(positions: int, vocabulary: int, width: int, device: str) -> States:
    draw = torch.Generator(device).manual_seed(0)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32

    def normal(rows: int, scale: float) -> Tensor:
        return (scale * torch.randn(rows, width, generator=draw, device=device)).to(dtype)

    ref_hidden, ref_head = normal(positions, 1.0), normal(vocabulary, width**-0.5)
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


def _dense_log_probs(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    return (hidden @ head.t()).float().log_softmax(1).gather(1, labels[:, None])[:, 0]


def _fused_log_probs(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
    from verl.utils.experimental.torch_functional import FusedLinearForPPO

    return FusedLinearForPPO().forward(hidden[None], head, labels[None])[0][0]


def _dense_exact(states: States) -> Tensor:
    own = (states.hidden @ states.head.t()).float().log_softmax(1)
    ref = (states.ref_hidden @ states.ref_head.t()).float().log_softmax(1)
    return (own.exp() * (own - ref)).sum(1).mean()
