"""How far hidden states have moved from the reference's."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def hidden_drift(hidden: Tensor, ref_hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Compare final hidden states position by position.

    Args:
        hidden: (n, d) of the policy.
        ref_hidden: (n, d) of the reference.

    Returns:
        (n,) relative L2 distance |h - h_ref| / |h_ref| and (n,) cosine similarity, both in float32; a
        reference state of length 0 gives the distance over the smallest positive float.
    """
    hidden, ref_hidden = hidden.float(), ref_hidden.float()
    length = ref_hidden.norm(dim=1).clamp_min(torch.finfo(torch.float32).tiny)
    distance = (hidden - ref_hidden).norm(dim=1) / length
    return distance, torch.nn.functional.cosine_similarity(hidden, ref_hidden)
