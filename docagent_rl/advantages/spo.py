"""Similarity-based policy optimisation: a baseline from similar trajectories (MM-Doc-R1)."""

from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.advantages.groups import (
    Positive,
    Singleton,
    Std,
    Tolerance,
    cell_std,
    check_singletons,
    equal_cells,
    group_metrics,
)
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.registry import Need, register
from docagent_rl.advantages.similarity import Negatives, SelfWeight, baseline_weights, cosines
from docagent_rl.advantages.trajectories import RowWeight, compress, trajectory_table
from docagent_rl.base.errors import UserError


class SpoStd(StrEnum):
    """The divisor of SPO's advantages."""

    NONE = "none"
    GROUP = "group"
    """The biased standard deviation of the group."""
    WEIGHTED = "weighted"
    """`sqrt(sum_j w[i, j] (R[j] - b[i])^2)`, including the trajectory itself; not for raw
    weights.
    """


class Scope(StrEnum):
    """The trajectories whose rewards form the baseline."""

    GROUP = "group"
    """The trajectories of the same question."""
    BATCH = "batch"
    """All trajectories of the batch, including other questions (the paper once says "batch")."""


def similarity_advantages(
    rewards: Tensor,
    group: Tensor,
    embeddings: Tensor,
    *,
    negatives: Negatives = Negatives.CLAMP,
    self_weight: SelfWeight = SelfWeight.INCLUDE,
    temperature: float | None = None,
    std: SpoStd = SpoStd.NONE,
    singleton: Singleton = Singleton.ZERO,
    tol: float = 1e-6,
    eps: float = 1e-6,
) -> Tensor:
    """Return `A[i] = R[i] - sum_j w[i, j] R[j]`, (m,) in float64; the sum over a group is not 0.

    Args:
        rewards: (m,) total reward of each trajectory.
        group: (m,) group numbers from 0; the weights are similarities to trajectory i within its
            group.
        embeddings: (m, d), one vector per trajectory; a zero or non-finite one gets uniform
            weights.
        negatives: how cosines become weights.
        self_weight: whether a trajectory is part of its own baseline.
        temperature: for `Negatives.SOFTMAX`.
        std: what to divide by.
        singleton: the advantage in a group of one.
        tol: a group whose rewards differ by less gets exact zeros.
        eps: added to the standard deviation.

    Raises:
        UserError: see `baseline_weights`; `SpoStd.WEIGHTED` with raw weights; a group of one under
            `Singleton.ERROR`.

    Source:
        MM-Doc-R1, Eq. 4 for the weights; the advantage follows its GRPO equation.
    """
    rewards = rewards.double()
    if not len(rewards):
        return rewards
    if std == SpoStd.WEIGHTED and negatives == Negatives.RAW:
        raise UserError(
            "spo: std=weighted needs non-negative weights: use negatives=clamp, affine or softmax."
        )
    count = torch.bincount(group)
    num = len(count)
    check_singletons(count, singleton)
    member, present = _members(group, count)
    padded = rewards.index_select(0, member.flatten()).view(member.shape).masked_fill(~present, 0.0)
    # selecting whole vectors is several times as fast as two-dimensional indexing
    vectors = embeddings.detach().float().index_select(0, member.flatten())
    similar, usable = cosines(vectors.view(*member.shape, -1))
    weights = baseline_weights(
        similar,
        present,
        usable,
        negatives=negatives,
        self_weight=self_weight,
        temperature=temperature,
    )
    scores = _by_trajectory(padded - _mean(weights, padded), member, present)
    if std == SpoStd.WEIGHTED:
        # The trajectory itself is always included here: without it the spread of the others may be
        # 0 although it differs from them.
        weights = baseline_weights(
            similar, present, usable, negatives=negatives, temperature=temperature
        )
        differences = padded[:, None, :] - _mean(weights, padded)[:, :, None]
        spread = (weights * differences.square()).sum(-1).sqrt()
        scores = scores / (_by_trajectory(spread, member, present) + eps)
    elif std == SpoStd.GROUP:
        scores = scores / (cell_std(rewards, group, num, Std.BIASED)[group] + eps)
    scores = scores.masked_fill(equal_cells(rewards, group, num, tol)[group], 0.0)
    if singleton == Singleton.RAW:
        scores = torch.where(count[group] == 1, rewards, scores)
    return scores


@register("spo", needs=(Need.EMBEDDINGS,))
def spo(
    inputs: AdvantageInputs,
    *,
    negatives: Negatives = Negatives.CLAMP,
    self_weight: SelfWeight = SelfWeight.INCLUDE,
    temperature: Positive | None = None,
    std: SpoStd = SpoStd.NONE,
    scope: Scope = Scope.GROUP,
    singleton: Singleton = Singleton.ZERO,
    tol: Tolerance = 1e-6,
    eps: Positive = 1e-6,
    row_weight: RowWeight = RowWeight.NONE,
) -> Advantages:
    """Compute SPO over trajectories: `similarity_advantages` on every token of a trajectory's rows.

    The baseline depends on the trajectory's own actions through its embedding: this reduces the
    variance within a branch, and biases the decision between branches. The less similar a
    trajectory is to its group, the smaller its advantage (`self_weight=loo` removes this
    shrinkage). `returns` is the total reward of the trajectory; the metric `spo/net_push` is the
    mean advantage of a trajectory, which is 0 for GRPO.

    Raises:
        UserError: `embeddings` is missing, or for the reasons in `similarity_advantages`.

    Source:
        MM-Doc-R1, Eq. 4.
    """
    if inputs.embeddings is None:
        raise UserError("embeddings is missing: spo needs one vector per trajectory.")
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    alive = table.alive
    rewards = table.totals[alive]
    group = table.group[alive]
    if scope == Scope.BATCH:
        group = torch.zeros_like(group)
    vectors = inputs.embeddings[alive]
    scores = torch.zeros_like(table.totals)
    scores[alive] = similarity_advantages(
        rewards,
        group,
        vectors,
        negatives=negatives,
        self_weight=self_weight,
        temperature=temperature,
        std=std,
        singleton=singleton,
        tol=tol,
        eps=eps,
    )
    metrics = group_metrics(rewards, table.group[alive], table.num_groups, tol, "spo")
    metrics["spo/net_push"] = float(scores.sum() / alive.sum().clamp(min=1))
    usable = cosines(vectors[:, None])[1]
    metrics["spo/unusable_embeddings"] = float((~usable).sum() / alive.sum().clamp(min=1))
    return Advantages(
        tokens.scatter(table.spread(scores, tokens, row_weight)),
        tokens.scatter(table.spread(table.totals, tokens)),
        metrics=metrics,
    )


def _members(group: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    """Return (q, g) trajectory numbers of each group, and (q, g) bool: the slot is not empty."""
    order = torch.argsort(group)
    slot = torch.arange(int(count.max()), device=group.device)
    starts = torch.cumsum(count, 0) - count
    member = order[(starts[:, None] + slot).clamp_(max=len(order) - 1)]
    return member, slot < count[:, None]


def _by_trajectory(values: Tensor, member: Tensor, present: Tensor) -> Tensor:
    """Return values by slot (q, g) as values by trajectory (m,)."""
    if not present.all():
        member = member[present]
        values = values[present]
    return torch.empty_like(values).view(-1).index_copy_(0, member.flatten(), values.flatten())


def _mean(weights: Tensor, rewards: Tensor) -> Tensor:
    """Return `sum_j w[i, j] R[j]`, (q, g), from weights (q, g, g) and rewards (q, g)."""
    return torch.bmm(weights, rewards[:, :, None]).squeeze(-1)


@register("spo_prefix", needs=(Need.PREFIXES,))
def spo_prefix(
    inputs: AdvantageInputs,
    *,
    negatives: Negatives = Negatives.CLAMP,
    self_weight: SelfWeight = SelfWeight.INCLUDE,
    temperature: Positive | None = None,
    std: SpoStd = SpoStd.NONE,
    singleton: Singleton = Singleton.ZERO,
    tol: Tolerance = 1e-6,
    eps: Positive = 1e-6,
    row_weight: RowWeight = RowWeight.NONE,
) -> Advantages:
    """Return `A[i, k] = R[i] - sum_j w[i, j, k] R[j]` on the tokens of step k of trajectory i.

    The weights are computed as in `spo`, but from what the trajectories did before step k; a
    trajectory that ended earlier is compared as a whole. So the baseline of a step is known before
    the step's tokens are sampled: unlike SPO's, it cannot depend on the decision that it judges. At
    the first step nothing has been done yet, so that the weights are uniform and the baseline is
    the mean of the group; towards the end the baselines approach SPO's. Options and `returns` are
    those of `spo`; the metric `spo_prefix/net_push` is the mean advantage of a sampled token.

    Raises:
        UserError: `prefix_embeddings` or `step` is missing, or for the reasons in
            `similarity_advantages`.

    Source:
        MM-Doc-R1, Eq. 4, applied to prefixes; the paper compares whole trajectories.
    """
    if inputs.prefix_embeddings is None or inputs.step is None:
        missing = "step" if inputs.step is None else "prefix_embeddings"
        raise UserError(
            f"{missing} is missing: spo_prefix needs one vector per step of a trajectory."
        )
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    alive = table.alive
    rewards = table.totals[alive]
    group = table.group[alive]
    steps = inputs.prefix_embeddings.shape[1]
    scores = table.totals.new_zeros(len(table.totals), steps)
    for step in range(steps):
        scores[alive, step] = similarity_advantages(
            rewards,
            group,
            inputs.prefix_embeddings[alive, step],
            negatives=negatives,
            self_weight=self_weight,
            temperature=temperature,
            std=std,
            singleton=singleton,
            tol=tol,
            eps=eps,
        )
    at = tokens.gather(inputs.step.double()).long()
    if len(at) and not 0 <= int(at.min()) <= int(at.max()) < steps:
        raise UserError(
            f"step ranges from {int(at.min())} to {int(at.max())}, but prefix_embeddings has "
            f"{steps} prefixes."
        )
    given = scores[tokens.trajectory, at]
    if row_weight == RowWeight.INVERSE:
        given = given / table.rows.clamp(min=1)[tokens.trajectory]
    metrics = group_metrics(rewards, group, table.num_groups, tol, "spo_prefix")
    metrics["spo_prefix/net_push"] = float(given.mean()) if len(given) else 0.0
    return Advantages(
        tokens.scatter(given), tokens.scatter(table.spread(table.totals, tokens)), metrics=metrics
    )
