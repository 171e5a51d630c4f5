"""Blocks of a matrix of logits, computed from hidden states and an output head when they are needed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Head:
    """An output head: logits = hidden @ weight.T + bias.

    Attributes:
        weight: (v, d).
        bias: (v,) or None.
    """

    weight: Tensor
    bias: Tensor | None = None


@dataclass(frozen=True)
class Tiles:
    """How a matrix of logits is cut, and the type it is computed in.

    Attributes:
        n: rows of the matrix, one a position.
        size: columns, one a vocabulary entry.
        tokens: rows a tile.
        entries: columns a tile.
        dtype: float32 or float64.
    """

    n: int
    size: int
    tokens: int
    entries: int
    dtype: torch.dtype

    def rows(self) -> list[slice]:
        """Positions of each tile."""
        return [slice(i, min(i + self.tokens, self.n)) for i in range(0, self.n, self.tokens)]

    def columns(self) -> list[slice]:
        """Vocabulary entries of each tile."""
        return [slice(i, min(i + self.entries, self.size)) for i in range(0, self.size, self.entries)]

    def block(self, head: Head, columns: slice) -> Head:
        """The head of some entries, ready to be multiplied."""
        bias = None if head.bias is None else head.bias[columns].to(self.dtype)
        return Head(self.operand(head.weight[columns]), bias)

    def operand(self, matrix: Tensor) -> Tensor:
        """Half precision stays as it is where the device multiplies it into float32."""
        half = matrix.dtype in (torch.bfloat16, torch.float16)
        return matrix if matrix.is_cuda and half else matrix.to(self.dtype)

    def logits(self, hidden: Tensor, block: Head, inverse: Tensor) -> Tensor:
        """A tile.

        Args:
            hidden: (r, d), an operand.
            block: a head of c entries.
            inverse: (r,) one over the temperature.

        Returns:
            (r, c), a tensor of its own.
        """
        tile = self.product(hidden, block.weight.t())
        if block.bias is not None:
            tile += block.bias
        return tile.mul_(inverse[:, None])

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Matrix product of operands in `dtype`."""
        if a.dtype != b.dtype:
            a, b = a.to(self.dtype), b.to(self.dtype)
        return a @ b if a.dtype == self.dtype else torch.mm(a, b, out_dtype=self.dtype)

    def add_product(self, total: Tensor, a: Tensor, b: Tensor) -> None:
        """Add a matrix product of operands to `total`, which has `dtype`."""
        if a.dtype == b.dtype == total.dtype:
            total.addmm_(a, b)
        else:
            total.add_(self.product(a, b))
