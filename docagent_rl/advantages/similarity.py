"""Similarities of the trajectories of a group, and the weights that SPO computes from them."""

from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.base.errors import UserError

_SMALLEST_ROW_SUM = 1e-3
_PLAIN_SQUARES = 1e-12, 1e30
"""Squared norms in this range are sums of float32 squares that neither overflow nor underflow."""


class Negatives(StrEnum):
    """Ways to turn cosines s into weights; all but `raw` give weights in [0, 1] that sum to 1."""

    CLAMP = "clamp"
    """max(s, 0)"""
    AFFINE = "affine"
    """(1 + s) / 2"""
    SOFTMAX = "softmax"
    """exp(s / temperature)"""
    RAW = "raw"
    """s, as printed in the paper: weights may be negative or exceed 1."""


class SelfWeight(StrEnum):
    """Inclusion or exclusion of a trajectory in its own baseline."""

    INCLUDE = "include"
    LOO = "loo"


def cosines(embeddings: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cosine similarities within each group from (q, g, d) vectors.

    Returns:
        (q, g, g) float32 in [-1, 1] with ones on the diagonal, and (q, g) bool, which marks the
        vectors that are finite and not zero. Any other vector has cosine 0 with all others.

    Source:
        MM-Doc-R1, Eq. 4 (the similarity of trajectory embeddings).
    """
    vectors = embeddings.detach().float()
    products = vectors @ vectors.mT
    squares = products.diagonal(dim1=-2, dim2=-1)
    smallest, largest = _PLAIN_SQUARES
    usable = (squares > smallest) & (squares < largest)
    if not usable.all():
        vectors, usable = _scaled(vectors, usable)
        products = vectors @ vectors.mT
        squares = products.diagonal(dim1=-2, dim2=-1)
    # here an unusable vector is all zeros, and so are its products
    scale = squares.masked_fill(~usable, 1.0).rsqrt()
    similar = products.mul_(scale[:, :, None]).mul_(scale[:, None, :]).clamp_(-1.0, 1.0)
    similar.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    return similar, usable


def _scaled(vectors: Tensor, plain: Tensor) -> tuple[Tensor, Tensor]:
    """Divide the vectors (q, g, d) that are not `plain` (q, g) by their largest entry.

    Their squares then neither overflow nor underflow. A vector whose largest entry is 0 or not
    finite becomes zeros. Also returns (q, g) bool: the vector is finite and not zero.
    """
    odd = vectors[~plain]
    largest = odd.abs().amax(1, keepdim=True)
    usable = torch.isfinite(largest) & (largest > 0)
    largest = largest.clamp(min=torch.finfo(torch.float32).tiny)
    vectors = vectors.clone()
    known = plain.clone()
    vectors[~plain] = (odd / largest).masked_fill_(~usable, 0.0)
    known[~plain] = usable[:, 0]
    return vectors, known


def baseline_weights(
    similar: Tensor,
    present: Tensor,
    usable: Tensor,
    *,
    negatives: Negatives = Negatives.CLAMP,
    self_weight: SelfWeight = SelfWeight.INCLUDE,
    temperature: float | None = None,
) -> Tensor:
    """Return `w[i, j] = s[i, j] / sum_k s[i, k]` over the trajectories of a group.

    Groups are padded to g members. A trajectory weighs the others uniformly if its embedding is not
    usable or, with leave-one-out, if it is similar to none of them.

    Args:
        similar: (q, g, g) cosines.
        present: (q, g) bool, the slots that contain a trajectory.
        usable: (q, g) bool, the trajectories whose embedding can be compared.
        negatives: how cosines become weights.
        self_weight: whether the sum includes k = i.
        temperature: for `Negatives.SOFTMAX`, positive.

    Returns:
        (q, g, g) float64; the rows of empty slots, and of groups of one under leave-one-out, are 0.

    Raises:
        UserError: `softmax` without a temperature, or `raw` with a row sum below 1e-3.

    Source:
        MM-Doc-R1, Eq. 4.
    """
    everyone = self_weight == SelfWeight.INCLUDE and bool(present.all())
    allowed = present[:, :, None] & present[:, None, :]
    if self_weight == SelfWeight.LOO:
        allowed &= ~torch.eye(similar.shape[-1], dtype=torch.bool, device=similar.device)
    similar = similar.to(torch.float64, copy=True)
    if negatives == Negatives.SOFTMAX:
        if temperature is None or temperature <= 0:
            raise UserError("spo: negatives=softmax needs a positive temperature.")
        peak = similar.masked_fill(~allowed, -torch.inf).amax(-1, keepdim=True).clamp(min=-1.0)
        similar = torch.exp((similar - peak).clamp(max=0.0) / temperature)
    elif negatives == Negatives.CLAMP:
        similar = similar.clamp_(min=0.0)
    elif negatives == Negatives.AFFINE:
        similar = 1 + similar  # the factor 1/2 cancels in the normalisation
    weights = similar if everyone else similar.mul_(allowed)
    total = weights.sum(-1, keepdim=True)
    comparable = usable[..., None] if everyone else usable[..., None] & allowed.any(2, keepdim=True)
    if negatives == Negatives.RAW and (comparable & (total < _SMALLEST_ROW_SUM)).any():
        raise UserError(
            "spo: the similarities of a trajectory sum to less than 0.001, so that raw weights "
            "explode. Use negatives=clamp, affine or softmax."
        )
    comparable = comparable & (total > 0)
    if comparable.all():
        return weights.div_(total)
    uniform = allowed.double() / allowed.sum(2, keepdim=True).clamp(min=1)
    return torch.where(comparable, weights / total, uniform)
