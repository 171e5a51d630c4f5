"""An estimator that nobody should use and some do: the last reward compared apart from those before it."""

from __future__ import annotations

import torch

from docagent_rl.advantages import AdvantageInputs, Advantages, Card, Case, Family, register
from docagent_rl.advantages.groups import GroupTurns, IndexMean, Std, cell_count, index_advantages
from docagent_rl.advantages.grpo import outcome_advantages
from docagent_rl.advantages.trajectories import compress, linked, trajectory_table, turn_table

_CARD = Card(
    Family.TURN,
    (
        Case("split, `survivors`", {"mean": IndexMean.SURVIVORS}, "u D (b - a)", "u g2"),
        Case("split, `padded`", {"mean": IndexMean.PADDED}, "u D ((1-p) c + b - a)", "u g2"),
    ),
)


@register("turn_split", card=_CARD)
def turn_split(inputs: AdvantageInputs, *, mean: IndexMean = IndexMean.SURVIVORS) -> Advantages:
    """The last reward of a trajectory compared over all trajectories, for all of its tokens; for a turn
    before the last also its own, compared by turn index.

    Args:
        inputs: batch of (b, t) of trajectories that all have sampled tokens.
        mean: see `IndexMean`.
    """
    tokens = compress(inputs)
    table, turns = trajectory_table(inputs, tokens), turn_table(inputs, tokens)
    goes_on = linked(turns.trajectory)
    ends, earlier = (~goes_on).nonzero().squeeze(1), goes_on.nonzero().squeeze(1)
    outcome = torch.zeros_like(table.totals).index_copy(0, turns.trajectory[ends], turns.rewards[ends])
    scores = outcome_advantages(outcome, table.group, std=Std.NONE)[turns.trajectory]
    steps = GroupTurns(
        rewards=turns.rewards[earlier],
        trajectory=turns.trajectory[earlier],
        ordinal=turns.ordinal[earlier],
        group=table.group[turns.trajectory[earlier]],
        size=cell_count(table.group, table.num_groups),
    )
    scores = scores.index_add(0, earlier, index_advantages(steps, mean=mean))
    return Advantages(tokens.scatter(scores[tokens.turn]), tokens.scatter(outcome[tokens.trajectory]))
