"""Statistics over groups of trajectories and over their turns (or over any cells numbered by integers)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.advantages.scan import reverse_scan
from docagent_rl.base.errors import UserError


class Std(StrEnum):
    """The divisor of centred rewards. Dividing weighs questions by 1 / spread; it is no baseline."""

    NONE = "none"
    BIASED = "biased"
    """1/G under the root (Doc-V*)."""
    UNBIASED = "unbiased"
    """1/(G-1) under the root (verl, EasyR1, ALDEN's release)."""


class Singleton(StrEnum):
    """The advantage of a group with one member."""

    ZERO = "zero"
    RAW = "raw"
    """Its reward, uncentred (verl)."""
    ERROR = "error"


def cell_count(cell: Tensor, num: int) -> Tensor:
    """Count the members of each of `num` cells, (num,), from cell numbers (m,)."""
    return torch.bincount(cell, minlength=num)


def cell_mean(x: Tensor, cell: Tensor, num: int) -> Tensor:
    """Return the mean of x (m,) in each cell, (num,); 0 in an empty one."""
    total = torch.zeros(num, dtype=x.dtype, device=x.device).index_add(0, cell, x)
    return total / cell_count(cell, num).clamp(min=1)


def cell_std(x: Tensor, cell: Tensor, num: int, std: Std) -> Tensor:
    """Return the standard deviation of x (m,) in each cell, (num,), in two passes; ones for `Std.NONE`."""
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
    """Subtract the cell's mean from x (m,), exactly 0 in cells of members within `tol` and in cells of one.

    `loo` leaves the member out of its own mean: a factor n / (n - 1).
    """
    centred = x - cell_mean(x, cell, num)[cell]
    if loo:
        count = cell_count(cell, num)
        centred = centred * (count.to(x.dtype) / (count - 1).clamp(min=1))[cell]
    return centred.masked_fill(equal_cells(x, cell, num, tol)[cell], 0.0)


def check_singletons(count: Tensor, singleton: Singleton) -> None:
    """Refuse groups of one under `Singleton.ERROR`; `count` (num,) holds the members of each group.

    Raises:
        UserError: a group has one member.
    """
    alone = int((count == 1).sum())
    if alone and singleton == Singleton.ERROR:
        raise UserError(
            f"{alone} group(s) have one trajectory that counts, so nothing to compare it with: sample more "
            "trajectories a question (rollout.n), or set singleton=zero."
        )


def group_metrics(x: Tensor, cell: Tensor, num: int, tol: float, prefix: str) -> dict[str, float]:
    """Return the shares of groups of one and of groups of equal rewards x (m,), among those with members."""
    count = cell_count(cell, num)
    groups = max(int((count > 0).sum()), 1)
    equal = equal_cells(x, cell, num, tol) & (count > 1)
    return {
        f"{prefix}/singleton_groups": int((count == 1).sum()) / groups,
        f"{prefix}/equal_groups": int(equal.sum()) / groups,
    }


class IndexMean(StrEnum):
    """The mean reward of a turn index, for the three forms normalised by index."""

    SURVIVORS = "survivors"
    """Over the trajectories that reached the turn."""
    PADDED = "padded"
    """Over all trajectories of the group, 0 after their end."""


@dataclass(frozen=True, eq=False)
class GroupTurns:
    """The N turns of the trajectories that count, in the order of trajectories and turns.

    Attributes:
        rewards: (N,) float64.
        trajectory: (N,) number of the trajectory.
        ordinal: (N,) 0-based turn of the trajectory, without gaps.
        group: (N,) number of the group.
        size: (groups,) trajectories of each group.
    """

    rewards: Tensor
    trajectory: Tensor
    ordinal: Tensor
    group: Tensor
    size: Tensor

    @property
    def horizon(self) -> int:
        """Return the largest number of turns of a trajectory."""
        return int(self.ordinal.max()) + 1 if len(self.ordinal) else 0

    @property
    def cell(self) -> Tensor:
        """Return (N,) numbers of the pairs (group, turn ordinal)."""
        return self.group * self.horizon + self.ordinal

    def sum_onwards(self, x: Tensor) -> Tensor:
        """Sum x (N,) from each turn to the end of its trajectory."""
        going_on = torch.zeros_like(x)
        going_on[:-1] = (self.trajectory[1:] == self.trajectory[:-1]).to(x.dtype)
        return reverse_scan(x, going_on)

    def padded_mean(self, x: Tensor) -> Tensor:
        """Average x (N,) over all trajectories of a group, 0 for absent turns: (groups, horizon)."""
        total = torch.zeros(len(self.size) * self.horizon, dtype=x.dtype, device=x.device)
        total = total.index_add(0, self.cell, x).view(len(self.size), self.horizon)
        return total / self.size.clamp(min=1)[:, None]


def return_advantages(turns: GroupTurns, *, fixed_horizon: bool, loo: bool, tol: float) -> Tensor:
    """Sum first, centre afterwards: `rtg_centered`, or `fixed_horizon`; (N,).

    Args:
        turns: the turns of a batch.
        fixed_horizon: count trajectories that ended before the turn, with 0.
        loo: leave the trajectory out of its own baseline.
        tol: returns that differ by less are equal (`rtg_centered`).

    Source:
        verl issue #7244; MT-GRPO (arXiv 2505.11821), cumulative form.
    """
    to_go = turns.sum_onwards(turns.rewards)
    if not fixed_horizon:
        return centre(to_go, turns.cell, len(turns.size) * turns.horizon, loo=loo, tol=tol)
    scores = to_go - turns.padded_mean(to_go)[turns.group, turns.ordinal]
    if loo:
        scores = scores * (turns.size.double() / (turns.size - 1).clamp(min=1))[turns.group]
    return scores


def index_advantages(
    turns: GroupTurns,
    *,
    mean: IndexMean = IndexMean.SURVIVORS,
    std: Std = Std.NONE,
    loo: bool = False,
    tol: float = 1e-6,
    eps: float = 1e-6,
) -> Tensor:
    """Return `(r[i,k] - mean[k]) / (std[k] + eps)` of each turn, (N,): by turn index, before any sum.

    Args:
        turns: the turns of a batch.
        mean: which trajectories the statistics of an index count.
        std: what to divide by, per index.
        loo: leave the trajectory out of its own mean.
        tol: rewards that differ (padded: spread) by less are equal.
        eps: added to the standard deviation.

    Source:
        verl issue #7244.
    """
    rewards, num = turns.rewards, len(turns.size) * turns.horizon
    if mean == IndexMean.SURVIVORS:
        scores = centre(rewards, turns.cell, num, loo=loo, tol=tol)
        spread = cell_std(rewards, turns.cell, num, std)[turns.cell]
        return scores if std == Std.NONE else scores / (spread + eps)
    average, size = turns.padded_mean(rewards), turns.size[turns.group]
    scores = rewards - average[turns.group, turns.ordinal]
    if std != Std.NONE:
        # two passes: those that are there, and (size - reached) zeros
        reached = cell_count(turns.cell, num).view_as(average)
        variance = turns.padded_mean(scores.square())
        variance += (1 - reached.double() / turns.size.clamp(min=1)[:, None]) * average.square()
        if std == Std.UNBIASED:
            variance *= (turns.size.double() / (turns.size - 1).clamp(min=1))[:, None]
        spread = variance.sqrt()[turns.group, turns.ordinal]
        scores = (scores / (spread + eps)).masked_fill(spread < tol, 0.0)
    return scores * (size.double() / (size - 1).clamp(min=1)) if loo else scores
