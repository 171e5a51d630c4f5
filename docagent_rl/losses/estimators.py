"""Estimators of KL(policy || reference) from the log-probs of one token a position.

d below is log reference - log policy. Where the token was sampled from the policy, k1 and k3 have the
divergence as their expectation, k2 nearly; where the environment wrote it (observations) none has, and
`losses.exact_kl` is the divergence itself (J. Schulman, "Approximating KL Divergence", 2020).
"""

from __future__ import annotations

import torch
from torch import Tensor

from docagent_rl.losses.config import KlType

MAX_LOG_RATIO = 20.0
MAX_K3 = 10.0
"""Bounds of k3, those of ALDEN's release and of verl. Beyond d = 2.611 the gradient of k3 is zero."""


def sampled_kl(log_probs: Tensor, ref_log_probs: Tensor, kind: KlType) -> Tensor:
    """Estimate the divergence at each position.

    Args:
        log_probs: any shape; the policy's log-prob of the token at each position.
        ref_log_probs: the same shape; the reference's. It receives no gradient.
        kind: every type but `KlType.EXACT`.

    Returns:
        Nats, of the same shape.

    Raises:
        ValueError: `kind` is `KlType.EXACT`, which log-probs of one token do not give.
    """
    d = ref_log_probs.detach() - log_probs
    match kind:
        case KlType.K1:
            return -d
        case KlType.K2:
            return d.square() / 2
        case KlType.K3:
            return _k3(d)
        case KlType.K3_PLUS:
            straight = d.square() / 2
            return straight - straight.detach() + _k3(d).detach()
        case KlType.EXACT:
            raise ValueError("the exact divergence needs hidden states: see docagent_rl.losses.exact_kl")


def clamped(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    """Where k3 is cut at `MAX_K3`, so that its gradient is zero; booleans of the inputs' shape."""
    return _unbounded_k3(ref_log_probs - log_probs) > MAX_K3


def _k3(d: Tensor) -> Tensor:
    return _unbounded_k3(d).clamp(max=MAX_K3)


def _unbounded_k3(d: Tensor) -> Tensor:
    d = d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return torch.exp(d) - d - 1
