"""The input and the output of every estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import cast

import torch
from torch import Tensor

from docagent_rl.base.errors import UserError


@dataclass(frozen=True)
class Discounts:
    """Discounts and lambdas of the two levels (ALDEN, arXiv 2510.25668), each in [0, 1].

    A token discount applies per sampled token, so that 0.99 over a turn of 200 tokens is 0.13; a
    turn discount applies once per turn, whatever its length. ALDEN uses `gamma_turn=0.9` and 1 for
    the others.

    Raises:
        UserError: a value is outside of [0, 1].
    """

    gamma_token: float = 1.0
    lam_token: float = 1.0
    gamma_turn: float = 1.0
    lam_turn: float = 1.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not 0.0 <= value <= 1.0:
                raise UserError(
                    f"discounts.{each.name} is {value}: it must be a number from 0 to 1."
                )


_BY_DEFAULT = cast("Tensor", None)
"""A placeholder that `__post_init__` replaces with a tensor."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AdvantageInputs:
    """One global batch: `b` rows of `t` response positions; rows belong to trajectories, which
    belong to groups.

    Values and rewards are only read at sampled positions.

    Attributes:
        token_rewards: (b, t) floats; the reward of a turn is on its last sampled token.
        mask: (b, t), non-zero on the tokens the policy sampled.
        turn_index: (b, t) integers, 0-based along the row, -1 on tokens that were not sampled.
            Never decreases along a row; gaps are allowed (a turn without sampled tokens is
            dropped).
        trajectory: (b,) integer id of the row's trajectory.
        row: (b,) position of the row in its trajectory; turns are chained from row to row in this
            order.
        group: (b,) integer id of the row's group: the trajectories of one question.
        values: (b, t) value of the context before each token; None without a critic.
        embeddings: (s, d), one vector per distinct trajectory id, in ascending order of the ids;
            for SPO.
        prefix_embeddings: (s, k + 1, d) in the same order, where k is the largest number of turns.
            Entry n is the vector of what the trajectory did in its first n turns; entry 0 is zeros,
            and from the trajectory's last turn on it is the vector of the whole trajectory.
        step: (b, t) integers, 0-based number of a sampled token's turn in its trajectory; -1
            elsewhere.
        texts: the text of each trajectory, in the same order.
        terms: reward terms by name, each (b, t): the value before the system's weight is applied,
            on the tokens that carry the reward of their turn.
        valid: (b,), zero on rows that do not count. A copy that was added for divisibility receives
            the result of its original; a row without an original gets zeros. By default the first
            of the rows with equal (trajectory, row) counts.
        discounts: see `Discounts`.

    Raises:
        UserError: a shape, a type, an id or a reward is wrong; the message names the field.
    """

    token_rewards: Tensor
    mask: Tensor
    turn_index: Tensor
    trajectory: Tensor
    row: Tensor
    group: Tensor
    values: Tensor | None = None
    embeddings: Tensor | None = None
    prefix_embeddings: Tensor | None = None
    step: Tensor | None = None
    texts: Sequence[str] | None = None
    terms: Mapping[str, Tensor] | None = None
    valid: Tensor = _BY_DEFAULT
    discounts: Discounts = field(default_factory=Discounts)

    def __post_init__(self) -> None:
        _check_shapes(self)
        object.__setattr__(self, "mask", self.mask.bool())
        first = originals(self.trajectory, self.row) == torch.arange(
            len(self.row), device=self.row.device
        )
        object.__setattr__(self, "valid", first if self.valid is None else self.valid != 0)
        _check_rows(self)
        _check_tokens(self)


@dataclass(frozen=True, eq=False)
class Advantages:
    """The output of an estimator.

    Attributes:
        advantages: (b, t), exactly 0 on positions that were not sampled. At least float32.
        returns: (b, t), critic targets (or, for estimators without a critic, the return that the
            token is credited with), 0 on positions that were not sampled.
        value_mask: (b, t) bool, the positions where `returns` is a target for the critic; None
            without a critic.
        metrics: numbers to log.
    """

    advantages: Tensor
    returns: Tensor
    value_mask: Tensor | None = None
    metrics: dict[str, float] = field(default_factory=dict)

    def within(self, mask: Tensor) -> Advantages:
        """Return a copy with zeros, and no critic targets, where the mask (b, t) is zero."""
        kept = mask.bool()
        return replace(
            self,
            advantages=self.advantages.masked_fill(~kept, 0),
            returns=self.returns.masked_fill(~kept, 0),
            value_mask=None if self.value_mask is None else self.value_mask.bool() & kept,
        )


def originals(trajectory: Tensor, row: Tensor, valid: Tensor | None = None) -> Tensor:
    """Find for each row the first row with the same (trajectory, row) that counts; -1 if there is
    none.

    All tensors are (b,); `valid` marks the rows that count.
    """
    size = len(row)
    # Number each column separately: `unique` over pairs is slow, as it compares column by column.
    _, key = torch.unique(trajectory, return_inverse=True)
    places, place = torch.unique(row, return_inverse=True)
    key = key * len(places) + place
    numbers = torch.arange(size, device=row.device)
    if valid is not None:
        numbers = numbers.masked_fill(~valid, size)
    first = torch.full((int(key.max()) + 1,), size, device=row.device)
    first = first.scatter_reduce(0, key, numbers, "amin")[key]
    return first.masked_fill(first == size, -1)


def _check_shapes(inputs: AdvantageInputs) -> None:
    shape = inputs.token_rewards.shape
    if len(shape) != 2 or shape[0] == 0:
        raise UserError(
            f"token_rewards has shape {tuple(shape)}: it must be (rows, positions), with at least "
            "one row."
        )
    expected: dict[str, torch.Size] = dict.fromkeys(("mask", "turn_index", "values", "step"), shape)
    expected |= dict.fromkeys(("trajectory", "row", "group", "valid"), torch.Size(shape[:1]))
    for name, want in expected.items():
        value = getattr(inputs, name)
        if value is not None and value.shape != want:
            raise UserError(
                f"{name} has shape {tuple(value.shape)}, but {tuple(want)} is expected."
            )
    for name in ("token_rewards", "values", "embeddings"):
        value = getattr(inputs, name)
        if value is not None and not value.is_floating_point():
            raise UserError(f"{name} is {value.dtype}: it must be floating-point.")
    for name in ("turn_index", "trajectory", "row", "group"):
        dtype = getattr(inputs, name).dtype
        if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
            raise UserError(f"{name} is {dtype}: it must be integers.")
    trajectories = len(torch.unique(inputs.trajectory))
    each = f"each of the {trajectories} trajectories."
    for name, dims, what in (
        ("embeddings", 2, "one vector"),
        ("prefix_embeddings", 3, "a table of vectors"),
    ):
        value = getattr(inputs, name)
        if value is not None and (value.dim() != dims or len(value) != trajectories):
            raise UserError(
                f"{name} has shape {tuple(value.shape)}: it must have {what} for {each}"
            )
    if inputs.texts is not None and len(inputs.texts) != trajectories:
        raise UserError(f"texts has {len(inputs.texts)} entries: it must have one for {each}")


def _check_rows(inputs: AdvantageInputs) -> None:
    trajectory = inputs.trajectory
    row = inputs.row
    valid = inputs.valid
    twice = valid & (originals(trajectory, row, valid) != torch.arange(len(row), device=row.device))
    if twice.any():
        at = int(twice.nonzero()[0])
        raise UserError(
            f"row {int(row[at])} of trajectory {int(trajectory[at])} occurs twice: set valid to 0 "
            "for the copy."
        )
    ids, index = torch.unique(trajectory, return_inverse=True)
    group = torch.zeros_like(ids).to(inputs.group.dtype).scatter(0, index, inputs.group)
    mixed = group[index] != inputs.group
    if mixed.any():
        raise UserError(f"trajectory {int(trajectory[mixed][0])} belongs to more than one group.")


def _check_tokens(inputs: AdvantageInputs) -> None:
    counts = inputs.mask & inputs.valid[:, None] if not inputs.valid.all() else inputs.mask
    active = counts.nonzero(as_tuple=True)
    negative = inputs.turn_index[active] < 0
    if negative.any():
        at = int(active[0][negative][0])
        raise UserError(
            f"turn_index is negative on a sampled token of batch row {at}: number the turns of its "
            "sampled tokens from 0."
        )
    for name in ("token_rewards", "values"):
        value = getattr(inputs, name)
        if value is not None and not torch.isfinite(value[active]).all():
            raise UserError(
                f"{name} is not finite on a sampled token: mask the trajectory, or fix the code "
                "that computes it."
            )
    _, index = torch.unique(inputs.trajectory, return_inverse=True)
    alive = torch.zeros(len(index), dtype=torch.bool, device=index.device)
    alive = alive.index_fill(0, index[active[0]], True)[index] & inputs.valid
    # only few tokens have a reward, so checking just those is cheap
    rewarded = inputs.token_rewards.nonzero(as_tuple=True)
    lost = ~counts[rewarded] & (inputs.turn_index[rewarded] >= 0) & alive[rewarded[0]]
    if lost.any():
        at, position = (int(i[lost][0]) for i in rewarded)
        turn = int(inputs.turn_index[at, position])
        raise UserError(
            f"token_rewards: batch row {at} rewards turn {turn} at position {position}, which the "
            "mask excludes, so that the reward would be lost. Put it on the last sampled token of "
            "the turn."
        )
