"""Similarities of sessions in a group, and the weights SPO makes of them."""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.errors import UserError

_SMALLEST_ROW_SUM = 1e-3


class Negatives(StrEnum):
    """How cosines become weights; all but `raw` give weights in [0, 1] that sum to 1."""

    CLAMP = "clamp"
    """max(s, 0)"""
    AFFINE = "affine"
    """(1 + s) / 2"""
    SOFTMAX = "softmax"
    """exp(s / temperature)"""
    RAW = "raw"
    """s, as printed: weights may be negative or exceed 1."""


class SelfWeight(StrEnum):
    """Whether a session is part of its own baseline."""

    INCLUDE = "include"
    LOO = "loo"


def cosines(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine similarities within each group.

    Args:
        embeddings: (q, g, d) vectors.

    Returns:
        (q, g, g) float32 in [-1, 1] with a diagonal of 1, and (q, g) bool: the vector is finite and not
        zero. A vector that is neither has cosine 0 with all others.

    Source:
        MM-Doc-R1, Eq. 4 (the similarity of trajectory embeddings).
    """
    # the largest entry first, so that the squares of very large or small vectors stay finite; it is not
    # finite where any entry is not
    largest = embeddings.detach().float().abs().amax(-1, keepdim=True)
    usable = torch.isfinite(largest) & (largest > 0)
    largest = largest.masked_fill(~usable, 1.0).clamp(min=torch.finfo(torch.float32).tiny)
    vectors = (embeddings.float() / largest).masked_fill_(~usable, 0.0)
    products = vectors @ vectors.transpose(1, 2)
    norms = products.diagonal(dim1=-2, dim2=-1).sqrt()
    similar = products / (norms[:, :, None] * norms[:, None, :]).masked_fill_(~(usable & usable.mT), 1.0)
    similar, usable = similar.clamp_(-1.0, 1.0), usable.squeeze(-1)
    diagonal = torch.eye(similar.shape[-1], dtype=torch.bool, device=similar.device)
    return similar.masked_fill(diagonal, 1.0), usable


def baseline_weights(
    similar: Tensor,
    present: Tensor,
    usable: Tensor,
    *,
    negatives: Negatives = Negatives.CLAMP,
    self_weight: SelfWeight = SelfWeight.INCLUDE,
    temperature: float | None = None,
) -> Tensor:
    """`w[i, j] = s[i, j] / sum_k s[i, k]` over the sessions of a group, padded to g members.

    A session without a usable embedding, or (leave-one-out) unlike all others, weighs them uniformly.

    Args:
        similar: (q, g, g) cosines.
        present: (q, g) bool, slots that hold a session.
        usable: (q, g) bool, sessions whose embedding can be compared.
        negatives: what is made of cosines.
        self_weight: whether k = i is counted.
        temperature: of `Negatives.SOFTMAX`, positive.

    Returns:
        (q, g, g) float64; rows of absent slots, and of groups of one under leave-one-out, are 0.

    Raises:
        UserError: no temperature under `softmax`; a row sum below 1e-3 under `raw`.

    Source:
        MM-Doc-R1, Eq. 4.
    """
    allowed = present[:, :, None] & present[:, None, :]
    if self_weight == SelfWeight.LOO:
        allowed &= ~torch.eye(similar.shape[-1], dtype=torch.bool, device=similar.device)
    similar = similar.double()
    if negatives == Negatives.SOFTMAX:
        if temperature is None or temperature <= 0:
            raise UserError("spo: negatives=softmax needs a positive temperature.")
        peak = similar.masked_fill(~allowed, -torch.inf).amax(-1, keepdim=True).clamp(min=-1.0)
        similar = torch.exp((similar - peak).clamp(max=0.0) / temperature)
    elif negatives == Negatives.CLAMP:
        similar = similar.clamp(min=0.0)
    elif negatives == Negatives.AFFINE:
        similar = (1 + similar) / 2
    weights = similar * allowed
    total = weights.sum(-1, keepdim=True)
    comparable = usable[..., None] & allowed.any(-1, keepdim=True)
    if negatives == Negatives.RAW and (comparable & (total < _SMALLEST_ROW_SUM)).any():
        raise UserError(
            "spo: similarities of a session sum to less than 0.001, so raw weights explode. "
            "Use negatives=clamp, affine or softmax."
        )
    uniform = allowed.double() / allowed.sum(-1, keepdim=True).clamp(min=1)
    comparable = comparable & (total > 0)
    return torch.where(comparable, weights / total.masked_fill(~comparable, 1.0), uniform)
