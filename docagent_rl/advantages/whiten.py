"""Whitening of advantages."""

from __future__ import annotations

import torch
from torch import Tensor


def whiten(advantages: Tensor, eps: float = 1e-8) -> Tensor:
    """`(A - mean) / sqrt(var + eps)`, unbiased variance, over all sampled tokens of the global batch.

    Statistics are weighted by tokens, so long trajectories dominate them. A single token gives 0, where verl
    raises.

    Args:
        advantages: (n,) floats, the sampled tokens only.
        eps: added to the variance.

    Returns:
        (n,), of mean 0.

    Source:
        verl 0.9.1, `masked_whiten`; ALDEN (arXiv 2510.25668) applies it once, after its second level.
    """
    if len(advantages) < 2:
        return torch.zeros_like(advantages)
    centred = advantages - advantages.mean()
    return centred * torch.rsqrt(centred.square().sum() / (len(advantages) - 1) + eps)
