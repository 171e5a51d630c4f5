"""Estimators of KL(policy || reference) from the log-probs of one token per position, and the drift
of hidden states.

Below, d is log reference - log policy. For a token that was sampled from the policy, the
expectation of k1 and k3 is the divergence, and that of k2 is close to it. For a token that the
environment wrote (an observation) none of them estimates the divergence; `losses.exact_kl` computes
it. See J. Schulman, "Approximating KL Divergence", 2020.
"""

import torch
from torch import Tensor

from docagent_rl.losses.config import KlType

MAX_LOG_RATIO = 20.0
MAX_K3 = 10.0
"""Bounds of k3, as in ALDEN's release and verl. Beyond d = 2.611 the gradient of k3 is zero."""


def sampled_kl(log_probs: Tensor, ref_log_probs: Tensor, kind: KlType) -> Tensor:
    """Estimate the divergence in nats at each position; the result has the shape of the inputs.

    `log_probs` are the policy's log-probs of the token at each position, `ref_log_probs` the
    reference's, which receive no gradient.

    Raises:
        ValueError: `kind` is `KlType.EXACT`, which cannot be computed from one token's log-probs.
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
            raise ValueError(
                "the exact divergence needs hidden states: see docagent_rl.losses.exact_kl"
            )


def clamped(log_probs: Tensor, ref_log_probs: Tensor) -> Tensor:
    """Return booleans of the inputs' shape, true where k3 is clamped and so has no gradient."""
    return _unbounded_k3(ref_log_probs - log_probs) > MAX_K3


def _k3(d: Tensor) -> Tensor:
    return _unbounded_k3(d).clamp(max=MAX_K3)


def _unbounded_k3(d: Tensor) -> Tensor:
    d = d.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return torch.exp(d) - d - 1


@torch.no_grad()
def hidden_drift(hidden: Tensor, ref_hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Return how far final hidden states (n, d) have drifted from the reference's, per position.

    Returns:
        (n,) relative L2 distance |h - h_ref| / |h_ref| and (n,) cosine similarity, both in float32.
        If a reference state has length 0, the distance is divided by the smallest positive float.
    """
    hidden = hidden.float()
    ref_hidden = ref_hidden.float()
    length = ref_hidden.norm(dim=1).clamp_min(torch.finfo(torch.float32).tiny)
    distance = (hidden - ref_hidden).norm(dim=1) / length
    return distance, torch.nn.functional.cosine_similarity(hidden, ref_hidden)
