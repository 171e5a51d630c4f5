"""The sampled tokens of a batch as one flat list, and tables of its trajectories and turns."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import torch
from torch import Tensor

from docagent_rl.advantages.inputs import AdvantageInputs, Advantages, originals
from docagent_rl.advantages.scan import reverse_scan
from docagent_rl.base.errors import UserError


@dataclass(frozen=True, eq=False)
class SampledTokens:
    """The positions of the n sampled tokens in the rows that count, without observations and
    padding.

    Attributes:
        rows: (n,) batch row of each token.
        positions: (n,) position in the row.
        trajectory: (n,) number of the trajectory, in ascending order of the ids.
        turn: (n,) number of the turn in the batch; the turns of a trajectory follow each other.
        original: (b,) the row whose result each row receives; -1 for zeros.
        width: t, the number of positions in a row.
        dtype: type of the scattered results.
    """

    rows: Tensor
    positions: Tensor
    trajectory: Tensor
    turn: Tensor
    original: Tensor
    width: int
    dtype: torch.dtype

    @cached_property
    def _at(self) -> Tensor:
        """Indices (n,) into the flattened batch; one index is several times as fast as two."""
        return self.rows * self.width + self.positions

    @property
    def same_turn(self) -> Tensor:
        """Return (n,) bool: the next token belongs to the same turn."""
        return linked(self.turn)

    def gather(self, dense: Tensor) -> Tensor:
        """Read (b, t) at the sampled tokens: (n,) in float64."""
        return dense.detach().reshape(-1).index_select(0, self._at).double()

    def scatter(self, flat: Tensor) -> Tensor:
        """Write (n,) to the rows, (b, t) with 0 elsewhere; a copied row gets its original's
        values.
        """
        dtype = torch.bool if flat.dtype == torch.bool else self.dtype
        dense = torch.zeros(len(self.original), self.width, dtype=dtype, device=flat.device)
        dense.view(-1).scatter_(0, self._at, flat.to(dtype))
        copies = self.original != torch.arange(len(self.original), device=flat.device)
        if copies.any():
            filled = (
                dense[self.original[copies].clamp(min=0)] * (self.original[copies] >= 0)[:, None]
            )
            dense[copies] = filled
        return dense


def linked(labels: Tensor) -> Tensor:
    """Return for each of (n,) labels whether the next one is equal; False for the last."""
    end = torch.zeros(min(len(labels), 1), dtype=torch.bool, device=labels.device)
    return torch.cat([labels[1:] == labels[:-1], end])


def compress(inputs: AdvantageInputs) -> SampledTokens:
    """Pack the sampled tokens of a batch (b, t).

    Raises:
        UserError: `turn_index` decreases along a row.
    """
    all_count = bool(inputs.valid.all())
    active = inputs.mask if all_count else inputs.mask & inputs.valid[:, None]
    rows, positions = active.nonzero(as_tuple=True)
    _, trajectory = torch.unique(inputs.trajectory, return_inverse=True)
    order = torch.argsort(inputs.row)
    order = order[torch.argsort(trajectory[order], stable=True)]
    numbers = torch.arange(len(order), device=order.device)
    if not torch.equal(order, numbers):
        rank = torch.empty_like(order)
        rank[order] = numbers
        by_trajectory = torch.argsort(rank[rows], stable=True)
        rows = rows[by_trajectory]
        positions = positions[by_trajectory]
    index = inputs.turn_index[rows, positions]
    back = (rows[1:] == rows[:-1]) & (index[1:] < index[:-1])
    if back.any():
        at = int(rows[1:][back][0])
        raise UserError(
            f"turn_index decreases along batch row {at}: number turns in the order in which they "
            "were made."
        )
    starts = torch.ones_like(rows)
    starts[1:] = ((rows[1:] != rows[:-1]) | (index[1:] != index[:-1])).long()
    return SampledTokens(
        rows=rows,
        positions=positions,
        trajectory=trajectory[rows],
        turn=torch.cumsum(starts, 0) - 1,
        original=numbers if all_count else originals(inputs.trajectory, inputs.row, inputs.valid),
        width=active.shape[1],
        dtype=torch.promote_types(inputs.token_rewards.dtype, torch.float32),
    )


class RowWeight(StrEnum):
    """The weight in the loss of each row of a trajectory that has several rows."""

    NONE = "none"
    """1: a trajectory with many rows weighs more."""
    INVERSE = "1/rows"
    """1 / number of its rows with sampled tokens: every trajectory weighs the same."""


@dataclass(frozen=True, eq=False)
class TurnTable:
    """The N turns of a batch; those of a trajectory are in order across all its rows.

    Attributes:
        first: (N,) first token of the turn, as an index into `SampledTokens`.
        last: (N,) last token of the turn.
        trajectory: (N,) number of the trajectory.
        ordinal: (N,) 0-based number of the turn in its trajectory, without gaps.
        rewards: (N,) float64, summed over the turn's tokens.
    """

    first: Tensor
    last: Tensor
    trajectory: Tensor
    ordinal: Tensor
    rewards: Tensor

    @property
    def horizon(self) -> int:
        """Return the largest number of turns of any trajectory."""
        return int(self.ordinal.max()) + 1 if len(self.ordinal) else 0

    def sum_onwards(self, x: Tensor) -> Tensor:
        """Sum x (N,) from each turn to the end of its trajectory."""
        return reverse_scan(x, linked(self.trajectory).to(x.dtype))

    def padded_mean(self, x: Tensor, group: Tensor, size: Tensor) -> Tensor:
        """Return the mean (N,) of x (N,) at each turn's ordinal over all trajectories of its group.

        Trajectories that have ended count as 0. `group` is (N,), `size` the number of trajectories
        of each group.
        """
        cell = group * self.horizon + self.ordinal
        total = torch.zeros(len(size) * self.horizon, dtype=x.dtype, device=x.device)
        return total.index_add(0, cell, x)[cell] / size[group]


@dataclass(frozen=True, eq=False)
class TrajectoryTable:
    """The m trajectories of a batch, in ascending order of their ids.

    Attributes:
        ids: (m,) trajectory ids.
        group: (m,) number of the group, from 0.
        totals: (m,) float64, total reward over all rows.
        rows: (m,) number of rows with sampled tokens. With 0 the trajectory is masked, and excluded
            from statistics.
        turns: (m,) number of turns.
    """

    ids: Tensor
    group: Tensor
    totals: Tensor
    rows: Tensor
    turns: Tensor

    @property
    def alive(self) -> Tensor:
        """Return (m,) bool: the trajectory has sampled tokens."""
        return self.rows > 0

    @property
    def num_groups(self) -> int:
        """Return the number of groups, which is the largest group number plus one."""
        return int(self.group.max()) + 1

    def spread(
        self, scores: Tensor, tokens: SampledTokens, weight: RowWeight = RowWeight.NONE
    ) -> Tensor:
        """Return (n,): assign each trajectory's score (m,) to all of its tokens."""
        if weight == RowWeight.INVERSE:
            scores = scores / self.rows.clamp(min=1)
        return scores[tokens.trajectory]


def turn_table(inputs: AdvantageInputs, tokens: SampledTokens) -> TurnTable:
    """Build the table of turns from the sampled tokens; turns with reward 0 are included."""
    same = tokens.same_turn
    last = (~same).nonzero().squeeze(1)
    first = torch.cat([torch.zeros_like(last[:1]), last[:-1] + 1])
    trajectory = tokens.trajectory[last]
    number = torch.arange(len(last), device=last.device)
    begins = torch.ones_like(trajectory, dtype=torch.bool)
    begins[1:] = trajectory[1:] != trajectory[:-1]
    start = torch.cummax(number * begins, 0).values if len(last) else number
    rewards = torch.zeros(len(last), dtype=torch.float64, device=last.device)
    rewards = rewards.index_add(0, tokens.turn, tokens.gather(inputs.token_rewards))
    return TurnTable(
        first=first, last=last, trajectory=trajectory, ordinal=number - start, rewards=rewards
    )


def trajectory_table(inputs: AdvantageInputs, tokens: SampledTokens) -> TrajectoryTable:
    """Build the table of trajectories of a batch, whatever the number and order of their rows."""
    ids, index = torch.unique(inputs.trajectory, return_inverse=True)
    _, group = torch.unique(inputs.group, return_inverse=True)
    active = (inputs.mask & inputs.valid[:, None]).any(1)
    totals = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
    trajectory_of_turn = tokens.trajectory[~tokens.same_turn]
    return TrajectoryTable(
        ids=ids,
        group=torch.zeros_like(index[: len(ids)]).scatter(0, index, group),
        totals=totals.index_add(0, tokens.trajectory, tokens.gather(inputs.token_rewards)),
        rows=torch.bincount(index[active], minlength=len(ids)),
        turns=torch.bincount(trajectory_of_turn, minlength=len(ids)),
    )


def turn_metrics(inputs: AdvantageInputs, result: Advantages) -> dict[str, float]:
    """Average the rewards, values and advantages of a batch by the turn's number `k`, from 1.

    Returns:
        `turns/trajectories/k`, how many trajectories reach the turn; `turns/reward/k`;
        `turns/advantage/k` and `turns/advantage_std/k`, over the turn's tokens; and with a critic
        `turns/value/k` and `turns/target/k`, at the turn's last token, whose value turn-level GAE
        reads.
    """
    tokens = compress(inputs)
    turns = turn_table(inputs, tokens)
    if not len(turns.last):
        return {}
    credit = tokens.gather(result.advantages)
    number = turns.ordinal[tokens.turn]
    mean = _means(credit, number)
    columns = {
        "trajectories": torch.bincount(turns.ordinal),
        "reward": _means(turns.rewards, turns.ordinal),
        "advantage": mean,
        "advantage_std": _means((credit - mean[number]).square(), number).sqrt(),
    }
    if inputs.values is not None:
        columns["value"] = _means(tokens.gather(inputs.values)[turns.last], turns.ordinal)
        columns["target"] = _means(tokens.gather(result.returns)[turns.last], turns.ordinal)
    return {
        f"turns/{name}/{k}": float(value)
        for name, column in columns.items()
        for k, value in enumerate(column.tolist(), start=1)
    }


def _means(x: Tensor, number: Tensor) -> Tensor:
    """Return the means (T,) of x (n,) by number (n,), which runs from 0 to T-1 without gaps."""
    return torch.bincount(number, weights=x) / torch.bincount(number)
