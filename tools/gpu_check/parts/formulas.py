"""Check divergences, log-probs and their gradients against formulas in float64 on whole logits.

The reference uses no code of verl or the plugin: log-probs are a `log_softmax`, divergences follow
their definitions from probabilities, and gradients are torch's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import verl  # noqa: F401  (loads the plugin: patches)
from torch import Tensor

from docagent_rl.losses.config import KlType
from docagent_rl.losses.estimators import sampled_kl
from docagent_rl.losses.exact_kl import Head, exact_kl
from docagent_rl.training.attention import log_probs_of_labels
from tools.gpu_check.check import Machine, Result, expect, passed

POSITIONS = 700
VOCABULARY = 5000
WIDTH = 48
TEMPERATURE = 0.7
ERROR = 1e-4
"""Largest allowed difference in float32, relative to the largest number; sums over 5,000 entries
may be taken in any order.
"""
CAP = 10.0
"""The bound of k3 in ALDEN's release and in verl."""
VERL_NAMES = {KlType.K1: "k1", KlType.K2: "k2", KlType.K3: "low_var_kl", KlType.K3_PLUS: "k3+"}


@dataclass(frozen=True)
class Case:
    """States and heads of a policy and a reference, labels, and a weight for each position.

    All numbers but the labels are float64.
    """

    hidden: Tensor
    head: Tensor
    ref_hidden: Tensor
    ref_head: Tensor
    labels: Tensor
    weight: Tensor


Way = Callable[..., Tensor]


def run(machine: Machine, folder: Path) -> Result:
    """Run the check that the module describes."""
    case = _case(machine.device)
    errors = _divergences(case) | _log_probs(case) | _exact(case)
    name = max(errors, key=lambda each: errors[each])
    return passed(
        f"{len(errors)} values and gradients, largest difference {errors[name]:.1g} ({name})",
        **errors,
    )


def _case(device: str) -> Case:
    draw = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    ref_hidden = normal(POSITIONS, WIDTH)
    ref_head = normal(VOCABULARY, WIDTH) / 4
    hidden = ref_hidden + normal(POSITIONS, WIDTH) / 4
    head = ref_head + normal(VOCABULARY, WIDTH) / 40
    labels = torch.randint(VOCABULARY, (POSITIONS,), generator=draw)
    parts = (hidden, head, ref_hidden, ref_head, labels, normal(POSITIONS))
    return Case(*(part.to(device) for part in parts))


def _divergences(case: Case) -> dict[str, float]:
    """Compare divergences for both signs of the log-ratio, and some beyond k3's bound."""
    from verl.trainer.ppo.core_algos import kl_penalty

    log_ratio = torch.linspace(-6, 3.5, POSITIONS, dtype=torch.float64, device=case.weight.device)
    policy = torch.full_like(log_ratio, -7.0)
    ref = policy + log_ratio
    errors = {}
    for kind, (value, slope) in _definitions(policy, ref).items():
        for owner, function in {
            "ours": lambda own, other, kind=kind: sampled_kl(own, other, kind),
            "verl's": lambda own, other, kind=kind: kl_penalty(own, other, VERL_NAMES[kind]),
        }.items():
            own = policy.float().requires_grad_()
            found = function(own, ref.float())
            (gradient,) = torch.autograd.grad(found, own, case.weight.float())
            errors |= _compare(
                f"{kind}, {owner}", found, value, {"log-probs": (gradient, slope * case.weight)}
            )
    return errors


def _definitions(policy: Tensor, ref: Tensor) -> dict[KlType, tuple[Tensor, Tensor]]:
    """Return values and their derivatives with respect to the policy's log-probs.

    In the formulas, p and q are a token's probabilities under the policy and the reference.
    """
    p = policy.exp()
    q = ref.exp()
    difference = policy - ref
    k3 = q / p - 1 - (q / p).log()
    inside = k3 <= CAP
    k3 = k3.clamp(max=CAP)
    slope = torch.where(inside, 1 - q / p, 0.0)
    return {
        KlType.K1: (difference, torch.ones_like(p)),
        KlType.K2: (difference**2 / 2, difference),
        KlType.K3: (k3, slope),
        KlType.K3_PLUS: (k3, difference),
    }


def _log_probs(case: Case) -> dict[str, float]:
    """Compare the functions that engines call for logits, and the one for states and a head."""
    from verl.utils.experimental.torch_functional import FusedLinearForPPO
    from verl.utils.torch_functional import logprobs_from_logits

    def of_logits(function: Way) -> Way:
        return lambda hidden, head, labels: function((hidden @ head.t()) / TEMPERATURE, labels)

    def fused(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
        found, _ = FusedLinearForPPO().forward(hidden[None], head, labels[None], TEMPERATURE)
        return found[0]

    def plain(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
        return (hidden @ head.t() / TEMPERATURE).log_softmax(1).gather(1, labels[:, None])[:, 0]

    ways = {
        "logits": of_logits(log_probs_of_labels),
        "logits, verl": of_logits(logprobs_from_logits),
    }
    return _against(case, plain, {**ways, "fused": fused})


def _exact(case: Case) -> dict[str, float]:
    """Compare the divergence over the whole vocabulary; some entries are left out as padding."""
    cut = VOCABULARY - 90

    def plain(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
        own = (hidden @ head[:cut].t() / TEMPERATURE).log_softmax(1)
        ref = (case.ref_hidden @ case.ref_head[:cut].t() / TEMPERATURE).log_softmax(1)
        return (own.exp() * (own - ref)).sum(1)

    def tiles(hidden: Tensor, head: Tensor, labels: Tensor) -> Tensor:
        ref = case.ref_hidden.float(), Head(case.ref_head.float())
        sizes = {"token_chunk": 128, "vocabulary_chunk": 1024}
        return exact_kl(hidden, Head(head), *ref, temperature=TEMPERATURE, vocabulary=cut, **sizes)

    return _against(case, plain, {"exact KL": tiles})


def _against(case: Case, plain: Way, ways: dict[str, Way]) -> dict[str, float]:
    value, gradients = _graded(case, plain, torch.float64)
    errors: dict[str, float] = {}
    for name, way in ways.items():
        found, own = _graded(case, way, torch.float32)
        pairs = zip(("states", "head"), zip(own, gradients, strict=True), strict=True)
        errors |= _compare(name, found, value, dict(pairs))
    return errors


def _graded(case: Case, way: Way, dtype: torch.dtype) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the number at each position, and the gradients of their weighted sum."""
    leaves = [part.to(dtype).requires_grad_() for part in (case.hidden, case.head)]
    found = way(*leaves, case.labels)
    return found.detach().clone(), torch.autograd.grad(found, leaves, case.weight.to(dtype))


def _compare(
    name: str, found: Tensor, expected: Tensor, gradients: dict[str, tuple[Tensor, Tensor]]
) -> dict[str, float]:
    pairs = {name: (found.detach(), expected)}
    pairs |= {f"{name}, gradient of {part}": pair for part, pair in gradients.items()}
    errors = {}
    for part, (ours, theirs) in pairs.items():
        errors[part] = float((ours.double() - theirs).abs().max() / theirs.abs().max())
        expect(
            errors[part] < ERROR,
            f"{part} differs by {errors[part]:.2g} of its largest number, more than {ERROR:g}",
        )
    return errors
