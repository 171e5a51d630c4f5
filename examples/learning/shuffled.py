"""Estimators that give every trajectory the reward of another one, so that nothing can be learned.

A run imports this module by `docagent.modules=[learning.shuffled]` and sets its estimator to
`shuffled_<name>`. Everything else stays the same, including the distribution of rewards.
"""

from __future__ import annotations

import dataclasses
import functools
import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from docagent_rl.advantages.gae import turn_gae
from docagent_rl.advantages.grpo import grpo
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.registry import Need, register
from docagent_rl.advantages.spo import spo

PREFIX = "shuffled_"


def shuffled(inputs: AdvantageInputs, seed: int = 0) -> AdvantageInputs:
    """Return the batch with the total rewards of its trajectories permuted.

    Each trajectory has its new total on its last sampled token. The permutation depends on `seed`
    and on the batch, so that every step has a different one.

    Args:
        inputs: `b` rows of `t` positions.
        seed: the seed of the permutation.
    """
    totals, trajectory = trajectory_totals(inputs)

    checksum = zlib.crc32(inputs.mask.numpy().tobytes())
    checksum = zlib.crc32(inputs.token_rewards.numpy().tobytes(), checksum)
    generator = torch.Generator().manual_seed(checksum + seed)
    shuffled_totals = totals[torch.randperm(len(totals), generator=generator)]

    rewards = torch.zeros_like(inputs.token_rewards)
    rows, columns = last_tokens(inputs, trajectory)
    rewards[rows, columns] = shuffled_totals[trajectory[rows]].to(rewards.dtype)
    return dataclasses.replace(inputs, token_rewards=rewards)


def trajectory_totals(inputs: AdvantageInputs) -> tuple[Tensor, Tensor]:
    """Sum up the rewards of each trajectory over its valid rows.

    Returns:
        the totals, (s,), in ascending order of the trajectory ids; and the index of each row's
        trajectory in them, (b,).
    """
    ids, trajectory = torch.unique(inputs.trajectory, return_inverse=True)
    row_totals = (inputs.token_rewards * inputs.mask).sum(1) * inputs.valid
    totals = torch.zeros(len(ids)).index_add(0, trajectory, row_totals.float())
    return totals, trajectory


def last_tokens(inputs: AdvantageInputs, trajectory: Tensor) -> tuple[Tensor, Tensor]:
    """Find the last sampled token of each trajectory that has sampled tokens.

    The rows of a trajectory follow each other in the order of `inputs.row`; copies of a row are
    ignored.

    Returns:
        the row and the column of each such token, two tensors of shape (s',).
    """
    # the last row of each trajectory among those that have sampled tokens
    has_tokens = inputs.mask.any(1) & inputs.valid
    row_number = torch.where(has_tokens, inputs.row, -1)
    trajectories = int(trajectory.max()) + 1
    last_number = torch.full((trajectories,), -1)
    last_number = last_number.scatter_reduce(0, trajectory, row_number, "amax")
    is_last = has_tokens & (row_number == last_number[trajectory])
    rows = is_last.nonzero()[:, 0]

    # the last sampled token is the first one in the reversed row
    tokens_after = inputs.mask[rows].flip(1).int().argmax(1)
    columns = inputs.mask.shape[1] - 1 - tokens_after
    return rows, columns


def _register_shuffled(
    name: str, estimator: Callable[..., Advantages], needs: tuple[Need, ...] = ()
) -> None:
    """Register an estimator as `shuffled_<name>` that shuffles rewards before it computes."""

    # `wraps` keeps the signature, so that a recipe may set the estimator's options
    @functools.wraps(estimator)
    def estimate(inputs: AdvantageInputs, **options: Any) -> Advantages:
        return estimator(shuffled(inputs), **options)

    estimate.__module__ = __name__
    estimate.__qualname__ = f"{PREFIX}{name}"
    register(f"{PREFIX}{name}", needs=needs)(estimate)


_register_shuffled("trajectory_grpo", grpo)
_register_shuffled("spo", spo, needs=(Need.EMBEDDINGS,))
_register_shuffled("turn_gae", turn_gae, needs=(Need.VALUES,))
