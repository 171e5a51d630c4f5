"""KL(policy || reference) over the whole vocabulary, from hidden states and output heads, tile by
tile.

With the logits p, q of the policy and the reference, log-normalisers P, Q, and probabilities
pi = softmax(p):

    KL = sum_v pi_v (p_v - q_v) - P + Q          dKL/dp_v = pi_v (p_v - q_v - P + Q - KL)

Both can be computed with one tile of logits at a time: the forward pass accumulates the sums with a
running maximum (online log-sum-exp), and the backward pass recomputes the tiles. Between the two,
the inputs and three numbers per position are saved.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class Head:
    """An output head: logits = hidden @ weight.T + bias; weight is (v, d), bias is (v,) or None."""

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Tiles:
    """The division of a matrix of n x size logits into tiles of tokens x entries.

    `dtype` is the type used for computations, float32 or float64.
    """

    n: int
    size: int
    tokens: int
    entries: int
    dtype: torch.dtype

    def rows(self) -> list[slice]:
        """Return the positions of each tile."""
        return [slice(i, min(i + self.tokens, self.n)) for i in range(0, self.n, self.tokens)]

    def columns(self) -> list[slice]:
        """Return the vocabulary entries of each tile."""
        return [
            slice(i, min(i + self.entries, self.size)) for i in range(0, self.size, self.entries)
        ]

    def block(self, head: Head, columns: slice) -> Head:
        """Return the part of a head for some entries, ready to be multiplied."""
        bias = None if head.bias is None else head.bias[columns].to(self.dtype)
        return Head(self.operand(head.weight[columns]), bias)

    def operand(self, matrix: Tensor) -> Tensor:
        """Return a matrix as it is multiplied: in half precision on CUDA, otherwise in `dtype`.

        CUDA multiplies half-precision matrices with a float32 result.
        """
        half = matrix.dtype in (torch.bfloat16, torch.float16)
        return matrix if matrix.is_cuda and half else matrix.to(self.dtype)

    def logits(self, hidden: Tensor, block: Head, inverse: Tensor) -> Tensor:
        """Return the logits (r, c) of states (r, d) and c entries; `inverse` (r,) is 1 /
        temperature.
        """
        tile = self.product(hidden, block.weight.t())
        if block.bias is not None:
            tile += block.bias
        return tile.mul_(inverse[:, None])

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Return the matrix product of two operands, in `dtype`."""
        if a.dtype != b.dtype:
            a = a.to(self.dtype)
            b = b.to(self.dtype)
        return a @ b if a.dtype == self.dtype else torch.mm(a, b, out_dtype=self.dtype)

    def add_product(self, total: Tensor, a: Tensor, b: Tensor) -> None:
        """Add the matrix product of two operands to `total`, which has the type `dtype`."""
        if a.dtype == b.dtype == total.dtype:
            total.addmm_(a, b)
        else:
            total.add_(self.product(a, b))


TOKEN_CHUNK = 1024
VOCABULARY_CHUNK = 8192


def exact_kl(
    hidden: Tensor,
    head: Head,
    ref_hidden: Tensor,
    ref_head: Head,
    *,
    temperature: float | Tensor = 1.0,
    vocabulary: int | None = None,
    token_chunk: int = TOKEN_CHUNK,
    vocabulary_chunk: int = VOCABULARY_CHUNK,
) -> Tensor:
    """Return the divergence of the policy from the reference at each position (ALDEN, KL_obs).

    Sums are accumulated in float32 (float64 for float64 inputs) whatever the inputs' type. In
    addition to the inputs and their gradients, a few tiles of `token_chunk * vocabulary_chunk`
    floats are in memory.

    Args:
        hidden: (n, d) final hidden states of the policy; receives a gradient.
        head: the policy's output head; its tensors receive gradients if they require them.
        ref_hidden: (n, e) final hidden states of the reference; no gradient.
        ref_head: the reference's head, with the same number of vocabulary entries; no gradient.
        temperature: the temperature of both distributions, a number or (n,).
        vocabulary: the number of entries, from the first, that count; by default all. It excludes
            from both distributions the rows that pad a vocabulary beyond the tokenizer's.
        token_chunk: positions per tile.
        vocabulary_chunk: vocabulary entries per tile.

    Returns:
        (n,) nats in float32 (float64).

    Raises:
        ValueError: policy and reference have different numbers of positions.
    """
    if hidden.shape[0] != ref_hidden.shape[0]:  # a single position would be broadcast
        raise ValueError(
            f"the policy has {hidden.shape[0]} positions, the reference {ref_hidden.shape[0]}"
        )
    size = head.weight.shape[0] if vocabulary is None else vocabulary
    kind = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    inverse = torch.as_tensor(temperature, dtype=kind, device=hidden.device).reciprocal()
    inverse = inverse.expand(hidden.shape[0]).contiguous()
    tiles = Tiles(hidden.shape[0], size, token_chunk, vocabulary_chunk, kind)
    ref = Head(ref_head.weight.detach(), None if ref_head.bias is None else ref_head.bias.detach())
    return _ExactKl.apply(hidden, head.weight, head.bias, ref_hidden.detach(), ref, inverse, tiles)


class _ExactKl(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        ref_hidden: Tensor,
        ref: Head,
        inverse: Tensor,
        tiles: Tiles,
    ) -> Tensor:
        with torch.autocast(hidden.device.type, enabled=False):
            sums = [
                _accumulate(
                    hidden[rows], Head(weight, bias), ref_hidden[rows], ref, inverse[rows], tiles
                )
                for rows in tiles.rows()
            ]
        empty = inverse.new_empty(3, 0)
        kl, log_z, ref_log_z = torch.cat([empty, *sums], dim=1)
        ctx.save_for_backward(
            hidden, weight, bias, ref_hidden, inverse, kl + log_z - ref_log_z, log_z
        )
        ctx.ref = ref
        ctx.tiles = tiles
        return kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, ref_hidden, inverse, mean, log_z = ctx.saved_tensors
        ref = ctx.ref
        tiles = ctx.tiles
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        # Gradients are accumulated in float32. The head's would be as large as the head itself, so
        # it is summed in blocks of vocabulary entries.
        grad_hidden = torch.zeros(hidden.shape, dtype=tiles.dtype, device=hidden.device)
        grad_weight = torch.zeros_like(weight) if needs_weight else None
        grad_bias = torch.zeros_like(bias) if needs_bias else None
        scale = grad.to(tiles.dtype) * inverse
        head = Head(weight, bias)
        for columns in tiles.columns():
            block = tiles.block(head, columns)
            ref_block = tiles.block(ref, columns)
            block_grad = torch.zeros(block.weight.shape, dtype=tiles.dtype, device=hidden.device)
            for rows in tiles.rows():
                states = tiles.operand(hidden[rows])
                p = tiles.logits(states, block, inverse[rows])
                tile = tiles.logits(tiles.operand(ref_hidden[rows]), ref_block, inverse[rows])
                # pi_v (p_v - q_v - mean): `mean` is KL + P - Q, the mean of p - q under pi
                tile.neg_().add_(p).sub_(mean[rows, None])
                tile.mul_(p.sub_(log_z[rows, None]).exp_()).mul_(scale[rows, None])
                del p
                if grad_bias is not None:
                    grad_bias[columns] += tile.sum(0).to(grad_bias.dtype)
                tile = tile.to(block.weight.dtype)
                if needs_hidden:
                    tiles.add_product(grad_hidden[rows], tile, block.weight)
                if needs_weight:
                    tiles.add_product(block_grad, tile.t(), states)
            if grad_weight is not None:
                grad_weight[columns] = block_grad.to(weight.dtype)
        result = grad_hidden.to(hidden.dtype) if needs_hidden else None
        return result, grad_weight, grad_bias, None, None, None, None


def _accumulate(
    hidden: Tensor, head: Head, ref_hidden: Tensor, ref: Head, inverse: Tensor, tiles: Tiles
) -> Tensor:
    """Return (3, n): the divergence and both log-normalisers, in one pass over the vocabulary."""
    hidden = tiles.operand(hidden)
    ref_hidden = tiles.operand(ref_hidden)
    low = inverse.new_full(inverse.shape, -torch.inf)
    top = low
    ref_top = low
    total, ref_total, weighted = (torch.zeros_like(inverse) for _ in range(3))
    for columns in tiles.columns():
        p = tiles.logits(hidden, tiles.block(head, columns), inverse)
        q = tiles.logits(ref_hidden, tiles.block(ref, columns), inverse)
        new_top = torch.maximum(top, p.amax(1))
        new_ref_top = torch.maximum(ref_top, q.amax(1))
        shrink = (top - new_top).exp_()
        ratio = p - q
        ratio.mul_(p.sub_(new_top[:, None]).exp_())
        weighted = weighted * shrink + ratio.sum(1)
        total = total * shrink + p.sum(1)
        ref_total = ref_total * (ref_top - new_ref_top).exp_() + q.sub_(
            new_ref_top[:, None]
        ).exp_().sum(1)
        top = new_top
        ref_top = new_ref_top
    log_z = top + total.log()
    ref_log_z = ref_top + ref_total.log()
    return torch.stack([weighted / total - log_z + ref_log_z, log_z, ref_log_z])
