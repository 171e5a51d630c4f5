"""Statistics over groups of trajectories, or over any cells numbered by integers."""

from enum import StrEnum
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor

from docagent_rl.base.errors import UserError

Tolerance = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A difference below which numbers count as equal."""
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Std(StrEnum):
    """The divisor of centred rewards. It weights questions by 1 / spread, and is not a baseline."""

    NONE = "none"
    BIASED = "biased"
    """With 1/G under the root (Doc-V*)."""
    UNBIASED = "unbiased"
    """With 1/(G-1) under the root (verl, EasyR1, ALDEN's release)."""


class Singleton(StrEnum):
    """The advantage of a group with one member."""

    ZERO = "zero"
    RAW = "raw"
    """The member's reward, not centred (verl)."""
    ERROR = "error"


def cell_count(cell: Tensor, num: int) -> Tensor:
    """Count the members of each of `num` cells, (num,), from cell numbers (m,)."""
    return torch.bincount(cell, minlength=num)


def cell_mean(x: Tensor, cell: Tensor, num: int) -> Tensor:
    """Return the mean of x (m,) in each cell, (num,); 0 for an empty cell."""
    total = torch.zeros(num, dtype=x.dtype, device=x.device).index_add(0, cell, x)
    return total / cell_count(cell, num).clamp(min=1)


def cell_std(x: Tensor, cell: Tensor, num: int, std: Std) -> Tensor:
    """Return the two-pass standard deviation of x (m,) in each cell, (num,); `Std.NONE` gives
    ones.
    """
    if std == Std.NONE:
        return torch.ones(num, dtype=x.dtype, device=x.device)
    variance = cell_mean((x - cell_mean(x, cell, num)[cell]).square(), cell, num)
    if std == Std.UNBIASED:
        count = cell_count(cell, num)
        variance = variance * count / (count - 1).clamp(min=1)
    return variance.sqrt()


def equal_cells(x: Tensor, cell: Tensor, num: int, tol: float) -> Tensor:
    """Find the cells (num,) whose members of x (m,) differ by less than `tol`, or not at all."""
    high = torch.full((num,), -torch.inf, dtype=x.dtype, device=x.device)
    high = high.scatter_reduce(0, cell, x, "amax")
    low = torch.full_like(high, torch.inf).scatter_reduce(0, cell, x, "amin")
    return (high - low < tol) | (high == low)


def centre(x: Tensor, cell: Tensor, num: int, *, loo: bool, tol: float) -> Tensor:
    """Subtract the cell's mean from x (m,).

    The result is exactly 0 in cells with one member, and where all members are within `tol`. `loo`
    excludes each member from its own mean, which is a factor of n / (n - 1).
    """
    centred = x - cell_mean(x, cell, num)[cell]
    if loo:
        count = cell_count(cell, num)
        centred = centred * (count.to(x.dtype) / (count - 1).clamp(min=1))[cell]
    return centred.masked_fill(equal_cells(x, cell, num, tol)[cell], 0.0)


def check_singletons(count: Tensor, singleton: Singleton) -> None:
    """Refuse groups of one under `Singleton.ERROR`; `count` (num,) is the size of each group.

    Raises:
        UserError: a group has one member.
    """
    alone = int((count == 1).sum())
    if alone and singleton == Singleton.ERROR:
        raise UserError(
            f"{alone} group(s) have only one trajectory that counts, and nothing to compare it "
            "with: sample more trajectories per question (rollout.n), or set singleton=zero."
        )


def group_metrics(x: Tensor, cell: Tensor, num: int, tol: float, prefix: str) -> dict[str, float]:
    """Return the shares of singleton groups, and of groups with equal rewards x (m,).

    Both are relative to the number of groups that have members.
    """
    count = cell_count(cell, num)
    groups = max(int((count > 0).sum()), 1)
    equal = equal_cells(x, cell, num, tol) & (count > 1)
    return {
        f"{prefix}/singleton_groups": int((count == 1).sum()) / groups,
        f"{prefix}/equal_groups": int(equal.sum()) / groups,
    }
