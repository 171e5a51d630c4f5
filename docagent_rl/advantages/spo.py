"""Similarity-based policy optimisation: a baseline of the trajectories that went alike
(MM-Doc-R1).
"""

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
    """`sqrt(sum_j w[i, j] (R[j] - b[i])^2)`, with the trajectory's own weight; not with raw
    weights.
    """


class Scope(StrEnum):
    """The trajectories whose rewards make a baseline."""

    GROUP = "group"
    """Those of the trajectories of the same question."""
    BATCH = "batch"
    """Those of all trajectories of the batch, other questions included (the paper once says
    batch).
    """


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
    """Return `A[i] = R[i] - sum_j w[i, j] R[j]`, (m,) in float64; they do not sum to 0 over a
    group.

    Args:
        rewards: (m,) total reward of each trajectory.
        group: (m,) group numbers from 0; weights are similarities to trajectory i in its group.
        embeddings: (m, d) one vector a trajectory; zero or non-finite: uniform weights.
        negatives: how cosines become weights.
        self_weight: whether a trajectory is part of its own baseline.
        temperature: of `Negatives.SOFTMAX`.
        std: what to divide by.
        singleton: what a group of one gets.
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
            "spo: std=weighted needs weights that are not negative: choose other negatives."
        )
    count = torch.bincount(group)
    num = len(count)
    check_singletons(count, singleton)
    member, present = _members(group, count)
    padded = rewards.index_select(0, member.flatten()).view(member.shape).masked_fill(~present, 0.0)
    # of whole vectors, several times as fast as an index of two dimensions
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
        # the trajectory itself always counts here: without it the others' spread may be 0 where it
        # differs
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
    """SPO over trajectories: `similarity_advantages` (which see) on every token of every row of a
    trajectory.

    The baseline depends on the trajectory's own actions through its embedding: less variance within
    a branch, a bias on the decision between branches. The more unlike its group a trajectory is,
    the smaller its advantage (`self_weight=loo` removes the shrinking). `returns` holds the total
    reward of the trajectory; the metric `spo/net_push` is the mean advantage of a trajectory, which
    GRPO keeps at 0.

    Raises:
        UserError: `embeddings` is missing, or as `similarity_advantages`.

    Source:
        MM-Doc-R1, Eq. 4.
    """
    if inputs.embeddings is None:
        raise UserError("embeddings is missing: spo needs one vector for each trajectory.")
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
    """Return (q, g) numbers of the trajectories of each group, and (q, g) bool: the slot holds
    one.
    """
    order = torch.argsort(group)
    slot = torch.arange(int(count.max()), device=group.device)
    starts = torch.cumsum(count, 0) - count
    member = order[(starts[:, None] + slot).clamp_(max=len(order) - 1)]
    return member, slot < count[:, None]


def _by_trajectory(values: Tensor, member: Tensor, present: Tensor) -> Tensor:
    """Write (q, g) as (m,)."""
    if not present.all():
        member = member[present]
        values = values[present]
    return torch.empty_like(values).view(-1).index_copy_(0, member.flatten(), values.flatten())


def _mean(weights: Tensor, rewards: Tensor) -> Tensor:
    """Return `sum_j w[i, j] R[j]` from (q, g, g) and (q, g): (q, g)."""
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

    The weights are those of `spo` from what the trajectories did before step k; of a trajectory
    that ended before, from all it did. So the baseline of a step is known before its tokens are:
    unlike SPO's, it cannot depend on the decision that it judges. At the first step nothing was
    done, the weights are uniform and the baseline is the mean of the group; towards the end the
    baselines become SPO's. Options and `returns` are those of `spo`; the metric
    `spo_prefix/net_push` is the mean advantage of a sampled token.

    Raises:
        UserError: `prefix_embeddings` or `step` is missing, or as `similarity_advantages`.

    Source:
        MM-Doc-R1, Eq. 4, applied to prefixes; the paper compares whole trajectories.
    """
    if inputs.prefix_embeddings is None or inputs.step is None:
        raise UserError(
            "prefix_embeddings is missing: spo_prefix needs one vector for each step of a "
            "trajectory."
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
            f"step runs from {int(at.min())} to {int(at.max())}: there are {steps} prefixes."
        )
    given = scores[tokens.trajectory, at]
    if row_weight == RowWeight.INVERSE:
        given = given / table.rows.clamp(min=1)[tokens.trajectory]
    metrics = group_metrics(rewards, group, table.num_groups, tol, "spo_prefix")
    metrics["spo_prefix/net_push"] = float(given.mean()) if len(given) else 0.0
    return Advantages(
        tokens.scatter(given), tokens.scatter(table.spread(table.totals, tokens)), metrics=metrics
    )
