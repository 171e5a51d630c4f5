"""The sampled tokens of a batch as one flat list, in the order of trajectories, rows and positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from docagent_rl.advantages.inputs import AdvantageInputs, originals
from docagent_rl.base.errors import UserError


@dataclass(frozen=True, eq=False)
class SampledTokens:
    """Where the n sampled tokens of the rows that count stand; observations and padding are absent.

    Attributes:
        rows: (n,) batch row of each token.
        positions: (n,) position in the row.
        trajectory: (n,) number of the trajectory, in ascending order of the ids.
        turn: (n,) number of the turn in the batch; the turns of a trajectory follow each other.
        original: (b,) the row whose result each row shows, -1 for zeros.
        width: t, the number of positions of a row.
        dtype: type of scattered results.
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
        """(n,) place in the batch written as one line; one index is several times as fast as two."""
        return self.rows * self.width + self.positions

    @property
    def same_row(self) -> Tensor:
        """(n,) bool: the next token stands in the same row."""
        return linked(self.rows)

    @property
    def same_turn(self) -> Tensor:
        """(n,) bool: the next token belongs to the same turn."""
        return linked(self.turn)

    def gather(self, dense: Tensor) -> Tensor:
        """Read (b, t) at the sampled tokens: (n,) in float64."""
        return dense.detach().reshape(-1).index_select(0, self._at).double()

    def scatter(self, flat: Tensor) -> Tensor:
        """Write (n,) to the rows, (b, t) with 0 elsewhere; copies of a row get the same as the row."""
        dtype = torch.bool if flat.dtype == torch.bool else self.dtype
        dense = torch.zeros(len(self.original), self.width, dtype=dtype, device=flat.device)
        dense.view(-1).scatter_(0, self._at, flat.to(dtype))
        copies = self.original != torch.arange(len(self.original), device=flat.device)
        if copies.any():
            filled = dense[self.original[copies].clamp(min=0)] * (self.original[copies] >= 0)[:, None]
            dense[copies] = filled
        return dense


def linked(labels: Tensor) -> Tensor:
    """Whether the next label of (n,) is the same; False at the end."""
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
        rows, positions = rows[by_trajectory], positions[by_trajectory]
    index = inputs.turn_index[rows, positions]
    back = (rows[1:] == rows[:-1]) & (index[1:] < index[:-1])
    if back.any():
        at = int(rows[1:][back][0])
        raise UserError(
            f"turn_index decreases along batch row {at}: number turns in the order they were made."
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
