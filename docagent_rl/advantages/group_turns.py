"""Turns compared within a group of trajectories: sum first and centre afterwards, or centre each turn
index.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.advantages.groups import Std, cell_count, cell_std, centre
from docagent_rl.advantages.scan import reverse_scan


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
        """The largest number of turns of a trajectory."""
        return int(self.ordinal.max()) + 1 if len(self.ordinal) else 0

    @property
    def cell(self) -> Tensor:
        """(N,) number of the pair (group, turn ordinal)."""
        return self.group * self.horizon + self.ordinal

    def sum_onwards(self, x: Tensor) -> Tensor:
        """The sum of x (N,) from each turn to the end of its trajectory."""
        going_on = torch.zeros_like(x)
        going_on[:-1] = (self.trajectory[1:] == self.trajectory[:-1]).to(x.dtype)
        return reverse_scan(x, going_on)

    def padded_mean(self, x: Tensor) -> Tensor:
        """The mean of x (N,) over all trajectories of a group, 0 where a turn is missing: (groups,
        horizon).
        """
        total = torch.zeros(len(self.size) * self.horizon, dtype=x.dtype, device=x.device)
        total = total.index_add(0, self.cell, x).view(len(self.size), self.horizon)
        return total / self.size.clamp(min=1)[:, None]


def return_advantages(
    turns: GroupTurns, *, fixed_horizon: bool = False, loo: bool = False, tol: float = 1e-6
) -> Tensor:
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
    """`(r[i,k] - mean[k]) / (std[k] + eps)` of each turn, (N,): normalised per turn index, before any sum.

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
