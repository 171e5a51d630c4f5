"""SPO with one baseline a step: trajectories are compared by what they did before it."""

from __future__ import annotations

from docagent_rl.advantages.compress import compress
from docagent_rl.advantages.groups import Singleton, group_metrics
from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.registry import Need, register
from docagent_rl.advantages.similarity import Negatives, SelfWeight
from docagent_rl.advantages.spo import SpoStd, similarity_advantages
from docagent_rl.advantages.trajectories import RowWeight, trajectory_table
from docagent_rl.base.errors import UserError


@register("spo_prefix", needs=(Need.PREFIXES,))
def spo_prefix(
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
    """`A[i, k] = R[i] - sum_j w[i, j, k] R[j]` on the tokens of step k of trajectory i.

    The weights are those of `spo` from what the trajectories did before step k; of a trajectory that ended
    before, from all it did. So the baseline of a step is known before its tokens are: unlike SPO's, it cannot
    depend on the decision that it judges. At the first step nothing was done, the weights are uniform and the
    baseline is the mean of the group; towards the end the baselines become SPO's.

    Args:
        inputs: batch of (b, t) with `prefix_embeddings` and `step`.
        negatives: see `similarity_advantages`, as are the following up to `eps`.
        self_weight: whether a trajectory is part of its own baseline.
        temperature: of `Negatives.SOFTMAX`.
        std: what to divide by.
        singleton: what a group of one gets.
        tol: rewards that differ by less are equal.
        eps: added to the standard deviation.
        row_weight: weight of the rows of trajectories of several rows.

    Returns:
        advantages (b, t); `returns` holds the total reward of the trajectory. The metric
        `spo_prefix/net_push` is the mean advantage of a sampled token.

    Raises:
        UserError: `prefix_embeddings` or `step` is missing, or as `similarity_advantages`.

    Source:
        MM-Doc-R1, Eq. 4, applied to prefixes; the paper compares whole trajectories.
    """
    if inputs.prefix_embeddings is None or inputs.step is None:
        raise UserError(
            "prefix_embeddings is missing: spo_prefix needs one vector for each step of a trajectory."
        )
    tokens = compress(inputs)
    table = trajectory_table(inputs, tokens)
    alive = table.alive
    rewards, group = table.totals[alive], table.group[alive]
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
        raise UserError(f"step runs from {int(at.min())} to {int(at.max())}: there are {steps} prefixes.")
    given = scores[tokens.trajectory, at]
    if row_weight == RowWeight.INVERSE:
        given = given / table.rows.clamp(min=1)[tokens.trajectory]
    metrics = group_metrics(rewards, group, table.num_groups, tol, "spo_prefix")
    metrics["spo_prefix/net_push"] = float(given.mean()) if len(given) else 0.0
    return Advantages(
        tokens.scatter(given), tokens.scatter(table.spread(table.totals, tokens)), metrics=metrics
    )
