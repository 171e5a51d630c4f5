"""Group-relative advantages of whole trajectories (GRPO) and of single turns."""

from __future__ import annotations

import warnings
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from docagent_rl.advantages.groups import (
    GroupTurns,
    IndexMean,
    Singleton,
    Std,
    cell_count,
    cell_std,
    centre,
    check_singletons,
    equal_cells,
    group_metrics,
    index_advantages,
    return_advantages,
)
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.registry import Card, Case, Family, register
from docagent_rl.advantages.trajectories import (
    RowWeight,
    compress,
    trajectory_table,
    turn_table,
)


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
        loo: leave a trajectory out of its own baseline: a factor G / (G - 1).
        singleton: what a group of one gets.
        tol: a group whose rewards differ by less gets exact zeros.
        eps: added to the standard deviation.

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
    `seq-mean-token-sum`, MM-Doc-R1's baseline `std=none` with `seq-mean-token-mean`. For the options see
    `outcome_advantages`; `returns` holds the total reward of the trajectory.

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


class TurnBaseline(StrEnum):
    """A comparison of turn k of trajectory i with its group; `r` turn rewards, `G` returns-to-go."""

    RTG_CENTERED = "rtg_centered"
    """`G[i,k]` minus its mean over the trajectories that reached turn k: unbiased up to scale."""
    FIXED_HORIZON = "fixed_horizon"
    """`G[i,k]` minus its mean over all trajectories, 0 after their end: GRPO on the total for the first turn.
    """
    INDEX_SUFFIX = "index_suffix"
    """Sum from k on of `(r[i,l] - mean[l]) / std[l]`: charges every turn that is reached."""
    INDEX_BROADCAST = "index_broadcast"
    """The same sum over all turns of the trajectory, on every token."""
    MYOPIC = "myopic"
    """`(r[i,k] - mean[k]) / std[k]` alone."""


_BIASED = {
    TurnBaseline.INDEX_SUFFIX: "charges a trajectory the mean reward of every turn it reaches",
    TurnBaseline.INDEX_BROADCAST: "charges a trajectory the mean reward of every turn it reaches",
    TurnBaseline.MYOPIC: "does not see what a turn leads to",
}


def _case(baseline: TurnBaseline, first: str, second: str, **options: Any) -> Case:
    words = [baseline, *(name if value is True else value for name, value in options.items())]
    return Case(", ".join(f"`{word}`" for word in words), {"baseline": baseline, **options}, first, second)


_SURVIVORS, _PADDED = {"index_mean": IndexMean.SURVIVORS}, {"index_mean": IndexMean.PADDED}
_REACHED = "g2 (1 - (1-(1-p)^G)/(Gp))"
_LIVING = "u D (c - a + (1-p) b)"
_TURN_CARD = Card(
    Family.TURN,
    (
        _case(TurnBaseline.RTG_CENTERED, "u g1", _REACHED),
        _case(TurnBaseline.RTG_CENTERED, "g1", "g2 (1 - (1-p)^(G-1))", loo=True),
        _case(TurnBaseline.FIXED_HORIZON, "u g1", "u g2"),
        _case(TurnBaseline.FIXED_HORIZON, "g1", "g2", loo=True),
        _case(TurnBaseline.INDEX_SUFFIX, "u D (c - a)", _REACHED, **_SURVIVORS),
        _case(TurnBaseline.INDEX_SUFFIX, _LIVING, "u g2", **_PADDED),
        _case(TurnBaseline.INDEX_BROADCAST, "u D (c - a)", _REACHED, **_SURVIVORS),
        _case(TurnBaseline.INDEX_BROADCAST, _LIVING, "u g2", **_PADDED),
        _case(TurnBaseline.MYOPIC, "u D (c - a)", _REACHED, **_SURVIVORS),
    ),
)


@register("turn_grpo", card=_TURN_CARD)
def turn_grpo(
    inputs: AdvantageInputs,
    *,
    baseline: TurnBaseline = TurnBaseline.RTG_CENTERED,
    index_mean: IndexMean = IndexMean.SURVIVORS,
    std: Std = Std.NONE,
    loo: bool = False,
    singleton: Singleton = Singleton.ZERO,
    tol: float = 1e-6,
    eps: float = 1e-6,
) -> Advantages:
    """GRPO with a reward a turn: every token of a turn gets the advantage of the turn.

    Turns of a trajectory are chained across its rows; the reward of a turn is the sum over its tokens,
    without discount. A turn that one trajectory alone reached gets 0 under the means over survivors. The last
    three baselines subtract something that depends on how long the trajectory goes on, which the policy
    chooses: they optimise `J - sum_l mean[l] P(T >= l)`, and warn. `returns` is the return-to-go of the turn.

    Args:
        inputs: batch of (b, t).
        baseline: see `TurnBaseline`.
        index_mean: the mean of a turn index, for the last three baselines.
        std: the first two baselines: divide by one standard deviation a group, that of the total reward
            (0 where totals are equal); the others: by one a turn index.
        loo: leave the trajectory out of its own baseline.
        singleton: what a group of one trajectory gets; `raw` is its return-to-go.
        tol: numbers that differ by less are equal.
        eps: added to the standard deviation.

    Raises:
        UserError: a group of one under `Singleton.ERROR`, or `turn_index` decreases along a row.

    Source:
        verl issue #7244 (horizon bias); MT-GRPO (arXiv 2505.11821) for turn-level advantages.
    """
    if baseline in _BIASED:
        warnings.warn(
            f"turn_grpo: {baseline} {_BIASED[baseline]}; use rtg_centered unless you reproduce it.",
            stacklevel=2,
        )
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    listed, alive = turn_table(inputs, tokens), table.alive
    turns = GroupTurns(
        rewards=listed.rewards,
        trajectory=listed.trajectory,
        ordinal=listed.ordinal,
        group=table.group[listed.trajectory],
        size=cell_count(table.group[alive], table.num_groups),
    )
    check_singletons(turns.size, singleton)
    totals, group, num = table.totals[alive], table.group[alive], table.num_groups
    if baseline in _BIASED:
        scores = index_advantages(turns, mean=index_mean, std=std, loo=loo, tol=tol, eps=eps)
        if baseline == TurnBaseline.INDEX_SUFFIX:
            scores = turns.sum_onwards(scores)
        elif baseline == TurnBaseline.INDEX_BROADCAST:
            scores = torch.zeros_like(table.totals).index_add(0, turns.trajectory, scores)[turns.trajectory]
    else:
        fixed = baseline == TurnBaseline.FIXED_HORIZON
        scores = return_advantages(turns, fixed_horizon=fixed, loo=loo, tol=tol)
        if std != Std.NONE:
            scores = scores / (cell_std(totals, group, num, std)[turns.group] + eps)
            scores = scores.masked_fill(equal_cells(totals, group, num, tol)[turns.group], 0.0)
    to_go = turns.sum_onwards(turns.rewards)
    alone = turns.size[turns.group] == 1
    scores = torch.where(alone, to_go if singleton == Singleton.RAW else torch.zeros_like(to_go), scores)
    return Advantages(
        tokens.scatter(scores[tokens.turn]),
        tokens.scatter(to_go[tokens.turn]),
        metrics=group_metrics(totals, group, num, tol, "turn_grpo"),
    )
