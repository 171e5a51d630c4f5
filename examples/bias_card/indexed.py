"""Biased estimators that compare rewards turn by turn before summing them, as some projects do.

They are here only for the card. `docagent.modules=[bias_card.indexed]
algorithm.adv_estimator=turn_index` trains with one of them.
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
    """The trajectories over which the mean reward of a turn index is taken."""

    SURVIVORS = "survivors"
    """The trajectories that reached the turn."""
    PADDED = "padded"
    """All trajectories of the group; rewards after their end count as 0."""


class TurnForm(StrEnum):
    """A rule that makes the advantage of a turn from the centred rewards `r[i,k] - mean[k]`."""

    SUFFIX = "index_suffix"
    """The sum from the turn to the end of the trajectory."""
    BROADCAST = "index_broadcast"
    """The sum over the whole trajectory, the same for all of its tokens."""
    MYOPIC = "myopic"
    """The centred reward of the turn alone."""


def index_advantages(turns: TurnTable, table: TrajectoryTable, mean: IndexMean) -> Tensor:
    """Return the centred reward `r[i,k] - mean[k]` of each turn, shape (N,), before any sum.

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
    """Give every token of a turn the centred rewards that `form` sums up.

    The amount that is subtracted depends on the length of the trajectory, which the policy chooses.
    So this optimises `J - sum_l mean[l] P(T >= l)` instead of `J`.

    Args:
        inputs: the batch, (b, t).
        form: see `TurnForm`.
        mean: see `IndexMean`.
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
    """Compare the last rewards of trajectories in the group, and the rewards before by turn index.

    All tokens of a trajectory get its last reward, less the group's mean of last rewards. The
    tokens of a turn before the last also get the turn's own reward, less the mean of its turn
    index.

    Args:
        inputs: the batch, (b, t); all of its trajectories must have sampled tokens.
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
