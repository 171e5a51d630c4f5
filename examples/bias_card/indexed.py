"""Estimators that nobody should use and some do: rewards compared turn by turn, before any sum.

`docagent.modules=[bias_card.indexed] algorithm.adv_estimator=turn_index` trains with one.
"""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.advantages import AdvantageInputs, Advantages, register
from docagent_rl.advantages.groups import Std, cell_count, centre
from docagent_rl.advantages.grpo import outcome_advantages
from docagent_rl.advantages.trajectories import (
    TrajectoryTable,
    TurnTable,
    compress,
    linked,
    trajectory_table,
    turn_table,
)


class IndexMean(StrEnum):
    """The mean reward of a turn index."""

    SURVIVORS = "survivors"
    """Over the trajectories that reached the turn."""
    PADDED = "padded"
    """Over all trajectories of the group, 0 after their end."""


class TurnForm(StrEnum):
    """The advantage of a turn, of rewards `r[i,k] - mean[k]`."""

    SUFFIX = "index_suffix"
    """Their sum from the turn to the end of the trajectory."""
    BROADCAST = "index_broadcast"
    """Their sum over the trajectory, on every token."""
    MYOPIC = "myopic"
    """The turn's own alone."""


def index_advantages(turns: TurnTable, table: TrajectoryTable, mean: IndexMean) -> Tensor:
    """Return `r[i,k] - mean[k]` of each turn, (N,): by turn index, before any sum.

    Source:
        verl issue #7244.
    """
    group = table.group[turns.trajectory]
    size = cell_count(table.group[table.alive], table.num_groups)
    if mean == IndexMean.PADDED:
        return turns.rewards - turns.padded_mean(turns.rewards, group, size)
    cell = group * turns.horizon + turns.ordinal
    return centre(turns.rewards, cell, table.num_groups * turns.horizon, loo=False, tol=1e-6)


@register("turn_index")
def turn_index(
    inputs: AdvantageInputs,
    *,
    form: TurnForm = TurnForm.SUFFIX,
    mean: IndexMean = IndexMean.SURVIVORS,
) -> Advantages:
    """Every token of a turn gets the turn's reward less the mean of its index, as `form` sums them
    up.

    What is subtracted depends on how long the trajectory goes on, which the policy chooses: this
    optimises `J - sum_l mean[l] P(T >= l)`.
    """
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    turns = turn_table(inputs, tokens)
    scores = index_advantages(turns, table, mean)
    if form == TurnForm.SUFFIX:
        scores = turns.sum_onwards(scores)
    elif form == TurnForm.BROADCAST:
        scores = torch.zeros_like(table.totals).index_add(0, turns.trajectory, scores)[
            turns.trajectory
        ]
    to_go = turns.sum_onwards(turns.rewards)
    return Advantages(tokens.scatter(scores[tokens.turn]), tokens.scatter(to_go[tokens.turn]))


@register("turn_split")
def turn_split(inputs: AdvantageInputs, *, mean: IndexMean = IndexMean.SURVIVORS) -> Advantages:
    """The last reward of a trajectory compared over all trajectories, for all of its tokens; for a
    turn before the last also its own, compared by turn index.

    Args:
        inputs: batch of (b, t) of trajectories that all have sampled tokens.
        mean: see `IndexMean`.
    """
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    turns = turn_table(inputs, tokens)
    goes_on = linked(turns.trajectory)
    ends = (~goes_on).nonzero().squeeze(1)
    earlier = goes_on.nonzero().squeeze(1)
    outcome = torch.zeros_like(table.totals).index_copy(
        0, turns.trajectory[ends], turns.rewards[ends]
    )
    scores = outcome_advantages(outcome, table.group, std=Std.NONE)[turns.trajectory]
    steps = TurnTable(
        first=turns.first[earlier],
        last=turns.last[earlier],
        trajectory=turns.trajectory[earlier],
        ordinal=turns.ordinal[earlier],
        rewards=turns.rewards[earlier],
    )
    scores = scores.index_add(0, earlier, index_advantages(steps, table, mean))
    return Advantages(
        tokens.scatter(scores[tokens.turn]), tokens.scatter(outcome[tokens.trajectory])
    )
