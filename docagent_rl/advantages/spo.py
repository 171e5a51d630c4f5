"""Similarity-based policy optimisation: a baseline of the sessions that went alike (MM-Doc-R1)."""

from __future__ import annotations

from enum import StrEnum

import torch
from torch import Tensor

from docagent_rl.advantages.compress import compress
from docagent_rl.advantages.groups import (
    Singleton,
    Std,
    cell_count,
    cell_std,
    check_singletons,
    equal_cells,
    group_metrics,
)
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.sessions import RowWeight, session_table
from docagent_rl.advantages.similarity import Negatives, SelfWeight, baseline_weights, cosines
from docagent_rl.errors import UserError


class SpoStd(StrEnum):
    """What SPO divides by."""

    NONE = "none"
    GROUP = "group"
    """The biased standard deviation of the group."""
    WEIGHTED = "weighted"
    """`sqrt(sum_j w[i, j] (R[j] - b[i])^2)`, with the session's own weight; not with raw weights."""


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
    """`A[i] = R[i] - sum_j w[i, j] R[j]`, the weights being similarities to session i in its group.

    Args:
        rewards: (m,) total reward of each session.
        group: (m,) group numbers from 0.
        embeddings: (m, d) one vector a session; zero or non-finite: uniform weights.
        negatives: how cosines become weights.
        self_weight: whether a session is part of its own baseline.
        temperature: of `Negatives.SOFTMAX`.
        std: what to divide by.
        singleton: what a group of one gets.
        tol: a group whose rewards differ by less gets exact zeros.
        eps: added to the standard deviation.

    Returns:
        (m,) in float64. They do not sum to 0 over a group.

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
        raise UserError("spo: std=weighted needs weights that are not negative: choose other negatives.")
    num = int(group.max()) + 1
    count = cell_count(group, num)
    check_singletons(count, singleton)
    slot = _slots(group, count)
    shape = (num, int(count.max()))
    present = torch.zeros(shape, dtype=torch.bool, device=group.device)
    present[group, slot] = True
    padded = torch.zeros(shape, dtype=rewards.dtype, device=group.device)
    padded[group, slot] = rewards
    vectors = torch.zeros(*shape, embeddings.shape[1], dtype=torch.float32, device=group.device)
    vectors[group, slot] = embeddings.float()
    similar, usable = cosines(vectors)
    weights = baseline_weights(
        similar, present, usable, negatives=negatives, self_weight=self_weight, temperature=temperature
    )
    baseline = torch.einsum("qij,qj->qi", weights, padded)
    scores = (padded - baseline)[group, slot]
    if std == SpoStd.WEIGHTED:
        # the session itself always counts here: without it the others' spread may be 0 where it differs
        weights = baseline_weights(similar, present, usable, negatives=negatives, temperature=temperature)
        scores = scores / (_weighted_std(weights, padded)[group, slot] + eps)
    elif std == SpoStd.GROUP:
        scores = scores / (cell_std(rewards, group, num, Std.BIASED)[group] + eps)
    scores = scores.masked_fill(equal_cells(rewards, group, num, tol)[group], 0.0)
    if singleton == Singleton.RAW:
        scores = torch.where(count[group] == 1, rewards, scores)
    return scores


def spo(
    inputs: AdvantageInputs,
    *,
    negatives: Negatives = Negatives.CLAMP,
    self_weight: SelfWeight = SelfWeight.INCLUDE,
    temperature: float | None = None,
    std: SpoStd = SpoStd.NONE,
    singleton: Singleton = Singleton.ZERO,
    tol: float = 1e-6,
    eps: float = 1e-6,
    row_weight: RowWeight = RowWeight.NONE,
) -> Advantages:
    """SPO over sessions: `similarity_advantages` on every token of every row of a session.

    The baseline depends on the session's own actions through its embedding: less variance within a branch,
    a bias on the decision between branches. The more unlike its group a session is, the smaller its
    advantage (`self_weight=loo` removes the shrinking).

    Args:
        inputs: batch of (b, t) with `embeddings`.
        negatives: see `similarity_advantages`, as are the following up to `eps`.
        self_weight: whether a session is part of its own baseline.
        temperature: of `Negatives.SOFTMAX`.
        std: what to divide by.
        singleton: what a group of one gets.
        tol: rewards that differ by less are equal.
        eps: added to the standard deviation.
        row_weight: weight of the rows of sessions of several rows.

    Returns:
        advantages (b, t); `returns` holds the total reward of the session. The metric `spo/net_push` is
        the mean advantage of a session, which GRPO keeps at 0.

    Raises:
        UserError: `embeddings` is missing, or as `similarity_advantages`.

    Source:
        MM-Doc-R1, Eq. 4.
    """
    if inputs.embeddings is None:
        raise UserError("embeddings is missing: spo needs one vector for each session.")
    tokens = compress(inputs)
    table = session_table(inputs, tokens)
    alive = table.alive
    rewards, group = table.totals[alive], table.group[alive]
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
    metrics = group_metrics(rewards, group, table.num_groups, tol, "spo")
    metrics["spo/net_push"] = float(scores.sum() / alive.sum().clamp(min=1))
    usable = cosines(vectors[:, None])[1]
    metrics["spo/unusable_embeddings"] = float((~usable).sum() / alive.sum().clamp(min=1))
    return Advantages(
        tokens.scatter(table.spread(scores, tokens, row_weight)),
        tokens.scatter(table.spread(table.totals, tokens)),
        metrics=metrics,
    )


def _slots(group: Tensor, count: Tensor) -> Tensor:
    """The place (m,) of each session among those of its group, in the given order."""
    order = torch.argsort(group, stable=True)
    starts = torch.cumsum(count, 0) - count
    slot = torch.empty_like(order)
    slot[order] = torch.arange(len(order), device=order.device) - starts[group[order]]
    return slot


def _weighted_std(weights: Tensor, rewards: Tensor) -> Tensor:
    """`sqrt(sum_j w[i, j] (R[j] - b[i])^2)` from (q, g, g) and (q, g): (q, g)."""
    baseline = torch.einsum("qij,qj->qi", weights, rewards)
    return (weights * (rewards[:, None, :] - baseline[:, :, None]).square()).sum(-1).sqrt()
