"""Reverse linear recurrences over packed segments."""

import torch
from torch import Tensor

_BLOCK = 64
"""Steps per block; they run one after another, each for all blocks at once."""


def reverse_scan(terms: Tensor, factors: Tensor) -> Tensor:
    """Solve `x[k] = terms[k] + factors[k] * x[k + 1]`, with x = 0 after the end, in O(n)
    operations.

    A factor of 0 ends a segment. Blocks of 64 are solved in parallel as if nothing followed them.
    What follows enters a block through the product of its factors, and is itself such a recurrence
    over the blocks. With |factors| <= 1 all operations are additions and contractions, whereas the
    textbook form `g^-t * cumsum(g^t d)` overflows.

    Args:
        terms: (..., n) floats.
        factors: (..., n), each within [-1, 1].

    Returns:
        (..., n), like `terms`.

    Source:
        Associative scans (Blelloch 1990, section 1.4): `(a1, d1) o (a2, d2) = (a1 a2, d1 + a1 d2)`.
    """
    if terms.shape[-1] <= 4 * _BLOCK:
        return _double(terms, factors)
    solution = _steps_of_blocks(terms)
    product = _steps_of_blocks(factors)
    for k in range(_BLOCK - 2, -1, -1):
        torch.addcmul(solution[k], product[k], solution[k + 1], out=solution[k])
        torch.mul(product[k], product[k + 1], out=product[k])
    follows = reverse_scan(solution[0], product[0]).roll(-1, -1)
    follows[..., -1] = 0
    solution.addcmul_(product, follows)
    return solution.movedim(0, -1).flatten(-2)[..., : terms.shape[-1]]


def _steps_of_blocks(x: Tensor) -> Tensor:
    """Return (..., n) as (block, ..., blocks), padded with zeros at the end."""
    padded = torch.nn.functional.pad(x, (0, -x.shape[-1] % _BLOCK))
    return (
        padded.unflatten(-1, (-1, _BLOCK))
        .movedim(-1, 0)
        .clone(memory_format=torch.contiguous_format)
    )


def _double(terms: Tensor, factors: Tensor) -> Tensor:
    """Solve the recurrence in `log2(longest segment)` steps over all terms; fast for few terms."""
    solution = terms.clone()
    factors = factors.clone()
    step = 1
    while factors.any():
        solution[..., :-step] += factors[..., :-step] * solution[..., step:]
        product = factors[..., :-step] * factors[..., step:]
        factors = torch.cat([product, torch.zeros_like(factors[..., :step])], dim=-1)
        step *= 2
    return solution


def lambda_returns(
    rewards: Tensor, values: Tensor, linked: Tensor, gamma: float, lam: float
) -> Tensor:
    """Return `R[k] = r[k] + gamma * ((1 - lam) * V[k + 1] + lam * R[k + 1])`, or `r[k]` where k is
    not linked.

    This is generalised advantage estimation plus the value: `R - V` is the advantage and `R` the
    critic's target. Values cancel exactly at `lam = 1`. `linked` (n,) marks the steps k whose
    segment continues at k + 1; `values` (n,) are the values of the state before each step.

    Source:
        Schulman et al. (arXiv 1506.02438), Eq. 16; as a lambda-return: Sutton and Barto (2018), Eq.
        12.2.
    """
    following = torch.cat([values[1:], torch.zeros_like(values[:1])])
    linked = linked.to(rewards.dtype)
    return reverse_scan(rewards + gamma * (1 - lam) * linked * following, gamma * lam * linked)
