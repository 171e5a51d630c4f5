"""Group-relative advantages of whole trajectories (GRPO) and of single turns."""

from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.advantages.groups import (
    Positive,
    Singleton,
    Std,
    Tolerance,
    cell_count,
    cell_std,
    centre,
    check_singletons,
    equal_cells,
    group_metrics,
)
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.registry import register
from docagent_rl.advantages.trajectories import RowWeight, compress, trajectory_table, turn_table


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
    """Return `(R - mean) / (std + eps)` in each group, or `R - mean`; (m,) in float64.

    Args:
        rewards: (m,) total reward of each trajectory.
        group: (m,) group numbers from 0.
        std: what to divide by.
        loo: exclude a trajectory from its own baseline, which is a factor of G / (G - 1).
        singleton: the advantage in a group of one.
        tol: a group whose rewards differ by less gets exact zeros.
        eps: added to the standard deviation.

    Raises:
        UserError: there is a group of one under `Singleton.ERROR`.

    Source:
        DeepSeekMath (arXiv 2402.03300), section 4.1.2; without std and with `loo`: RLOO (arXiv
        2402.14740).
    """
    rewards = rewards.double()
    count = torch.bincount(group)
    num = len(count)
    check_singletons(count, singleton)
    scores = centre(rewards, group, num, loo=loo, tol=tol)
    if std != Std.NONE:
        scores = scores / (cell_std(rewards, group, num, std)[group] + eps)
    if singleton == Singleton.RAW:
        scores = torch.where(count[group] == 1, rewards, scores)
    return scores


@register("trajectory_grpo")
def grpo(
    inputs: AdvantageInputs,
    *,
    std: Std = Std.UNBIASED,
    loo: bool = False,
    singleton: Singleton = Singleton.ZERO,
    tol: Tolerance = 1e-6,
    eps: Positive = 1e-6,
    row_weight: RowWeight = RowWeight.NONE,
) -> Advantages:
    """Compute GRPO over trajectories: each counts once, however many rows it has, and passes its
    advantage on to all of its tokens.

    Masked trajectories, and those without sampled tokens, are excluded from the statistics. If
    fewer than two trajectories of a group remain, or if all their rewards are equal, their
    advantage is 0. verl's own `grpo` gives a single remaining trajectory its reward instead
    (`singleton=raw`). For all other groups the results are verl's: `std=unbiased` is verl's
    `norm_adv_by_std_in_grpo=true`, `std=none` is `false`. Doc-V* is `std=biased` with verl's
    `seq-mean-token-sum`, MM-Doc-R1's baseline is `std=none` with `seq-mean-token-mean`. For the
    options see `outcome_advantages`; `returns` is the total reward of the trajectory.

    Raises:
        UserError: there is a group of one under `Singleton.ERROR`, or `turn_index` decreases along
            a row.

    Source:
        DeepSeekMath (arXiv 2402.03300), section 4.1.2.
    """
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    alive = table.alive
    rewards = table.totals[alive]
    group = table.group[alive]
    scores = torch.zeros_like(table.totals)
    scores[alive] = outcome_advantages(
        rewards, group, std=std, loo=loo, singleton=singleton, tol=tol, eps=eps
    )
    return Advantages(
        tokens.scatter(table.spread(scores, tokens, row_weight)),
        tokens.scatter(table.spread(table.totals, tokens)),
        metrics=group_metrics(rewards, group, table.num_groups, tol, "grpo"),
    )


class TurnBaseline(StrEnum):
    """The baseline that the return-to-go of a turn is compared with."""

    RTG_CENTERED = "rtg_centered"
    """The mean return-to-go of the trajectories that reached the turn."""
    FIXED_HORIZON = "fixed_horizon"
    """The mean return-to-go of all trajectories of the group, 0 after their end."""


@register("turn_grpo")
def turn_grpo(
    inputs: AdvantageInputs,
    *,
    baseline: TurnBaseline = TurnBaseline.RTG_CENTERED,
    std: Std = Std.NONE,
    loo: bool = False,
    singleton: Singleton = Singleton.ZERO,
    tol: Tolerance = 1e-6,
    eps: Positive = 1e-6,
) -> Advantages:
    """Compute GRPO with one reward per turn: every token of a turn gets the turn's advantage.

    Rewards are first summed from a turn to the end of its trajectory, across rows and without
    discount, and then centred. If rewards were first centred by turn number, a trajectory would be
    charged the mean reward of every turn it reaches, and the policy chooses how many it reaches
    (`examples/bias_card/indexed.py`). A turn that only one trajectory reached gets 0 under
    `rtg_centered`. `returns` is the return-to-go of the turn.

    Args:
        inputs: batch of (b, t).
        baseline: see `TurnBaseline`.
        std: divide by one standard deviation per group, that of the total reward; the advantage is
            0 where totals are equal.
        loo: exclude the trajectory from its own baseline.
        singleton: the advantage in a group of one; `raw` is the return-to-go.
        tol: numbers that differ by less count as equal.
        eps: added to the standard deviation.

    Raises:
        UserError: there is a group of one under `Singleton.ERROR`, or `turn_index` decreases along
            a row.

    Source:
        verl issue #7244 (horizon bias); MT-GRPO (arXiv 2505.11821), cumulative form.
    """
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    turns = turn_table(inputs, tokens)
    totals = table.totals[table.alive]
    group = table.group[table.alive]
    num = table.num_groups
    size = cell_count(group, num)
    group_of_turn = table.group[turns.trajectory]
    check_singletons(size, singleton)
    to_go = turns.sum_onwards(turns.rewards)
    if baseline == TurnBaseline.RTG_CENTERED:
        cell = group_of_turn * turns.horizon + turns.ordinal
        scores = centre(to_go, cell, num * turns.horizon, loo=loo, tol=tol)
    else:
        scores = to_go - turns.padded_mean(to_go, group_of_turn, size)
        if loo:
            scores = scores * (size.double() / (size - 1).clamp(min=1))[group_of_turn]
    if std != Std.NONE:
        scores = scores / (cell_std(totals, group, num, std)[group_of_turn] + eps)
        scores = scores.masked_fill(equal_cells(totals, group, num, tol)[group_of_turn], 0.0)
    if singleton == Singleton.RAW:
        scores = torch.where(size[group_of_turn] == 1, to_go, scores)
    return Advantages(
        tokens.scatter(scores[tokens.turn]),
        tokens.scatter(to_go[tokens.turn]),
        metrics=group_metrics(totals, group, num, tol, "turn_grpo"),
    )
