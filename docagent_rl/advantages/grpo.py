"""Group-relative advantages of whole trajectories (GRPO)."""

from __future__ import annotations

import torch
from torch import Tensor

from docagent_rl.advantages.card import Card, Case, Family
from docagent_rl.advantages.compress import compress
from docagent_rl.advantages.groups import (
    Singleton,
    Std,
    cell_std,
    centre,
    check_singletons,
    group_metrics,
)
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.registry import register
from docagent_rl.advantages.trajectories import RowWeight, trajectory_table


def outcome_advantages(
    rewards: Tensor,
    group: Tensor,
    *,
    std: Std = Std.UNBIASED,
    loo: bool = False,
    singleton: Singleton = Singleton.ZERO,
    tol: float = 1e-6,
    eps: float = 1e-6,
) -> Tensor:
    """`(R - mean) / (std + eps)` in each group, or `R - mean`.

    Args:
        rewards: (m,) total reward of each trajectory.
        group: (m,) group numbers from 0.
        std: what to divide by.
        loo: leave a trajectory out of its own baseline: a factor G / (G - 1).
        singleton: what a group of one gets.
        tol: a group whose rewards differ by less gets exact zeros.
        eps: added to the standard deviation.

    Returns:
        (m,) in float64.

    Raises:
        UserError: a group of one under `Singleton.ERROR`.

    Source:
        DeepSeekMath (arXiv 2402.03300), section 4.1.2; without std and with `loo`: RLOO (arXiv 2402.14740).
    """
    rewards, count = rewards.double(), torch.bincount(group)
    num = len(count)
    check_singletons(count, singleton)
    scores = centre(rewards, group, num, loo=loo, tol=tol)
    if std != Std.NONE:
        scores = scores / (cell_std(rewards, group, num, std)[group] + eps)
    if singleton == Singleton.RAW:
        scores = torch.where(count[group] == 1, rewards, scores)
    return scores


_CARD = Card(
    Family.TRAJECTORY,
    (
        Case("`trajectory_grpo`, `std=none`", {"std": Std.NONE}, "u g1", "u g2"),
        Case("`trajectory_grpo`, `std=none`, `loo`", {"std": Std.NONE, "loo": True}, "g1", "g2"),
        Case("`trajectory_grpo`, `std=biased`", {"std": Std.BIASED}, "-> g1 / sigma", "-> g2 / sigma"),
        Case("`trajectory_grpo`, `std=unbiased`", {"std": Std.UNBIASED}, "-> g1 / sigma", "-> g2 / sigma"),
    ),
)


@register("trajectory_grpo", card=_CARD)
def grpo(
    inputs: AdvantageInputs,
    *,
    std: Std = Std.UNBIASED,
    loo: bool = False,
    singleton: Singleton = Singleton.ZERO,
    tol: float = 1e-6,
    eps: float = 1e-6,
    row_weight: RowWeight = RowWeight.NONE,
) -> Advantages:
    """GRPO over trajectories: each counts once, however many rows it has, and gives its number to all tokens.

    Masked trajectories, and those without sampled tokens, are left out before the statistics. A group of
    which fewer than two trajectories are left has nothing to compare, nor has one of equal rewards: their
    advantage is 0. verl's own `grpo` gives the last trajectory of a group its reward instead
    (`singleton=raw`). All other groups get the numbers of that one: `std=unbiased` is its
    `norm_adv_by_std_in_grpo=true`, `std=none` its `false`. Doc-V* is `std=biased` with verl's
    `seq-mean-token-sum`, MM-Doc-R1's baseline `std=none` with `seq-mean-token-mean`.

    Args:
        inputs: batch of (b, t).
        std: see `outcome_advantages`, as are `loo`, `singleton`, `tol` and `eps`.
        loo: leave-one-out baseline.
        singleton: what a group of one gets.
        tol: rewards that differ by less are equal.
        eps: added to the standard deviation.
        row_weight: weight of the rows of trajectories of several rows.

    Returns:
        advantages (b, t); `returns` holds the total reward of the trajectory.

    Raises:
        UserError: a group of one under `Singleton.ERROR`, or `turn_index` decreases along a row.

    Source:
        DeepSeekMath (arXiv 2402.03300), section 4.1.2.
    """
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    alive = table.alive
    rewards, group = table.totals[alive], table.group[alive]
    scores = torch.zeros_like(table.totals)
    scores[alive] = outcome_advantages(
        rewards, group, std=std, loo=loo, singleton=singleton, tol=tol, eps=eps
    )
    return Advantages(
        tokens.scatter(table.spread(scores, tokens, row_weight)),
        tokens.scatter(table.spread(table.totals, tokens)),
        metrics=group_metrics(rewards, group, table.num_groups, tol, "grpo"),
    )
