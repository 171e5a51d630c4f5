"""Numbers of a batch of trajectories and of their turns, by name."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from torch import Tensor

from docagent_rl.advantages.inputs import Advantages, Discounts
from docagent_rl.advantages.trajectories import turn_metrics
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.evidence import Branch, Evidence, Stage, shares
from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.training.trainer.inputs import advantage_inputs

PREFIX = "docagent"
UNSOUGHT = f"{PREFIX}/funnel/unsought_reward"
MOST_UNSOUGHT = 0.25
"""Share of the rewards for answers without evidence from which on a run warns."""


def summarise(trajectories: Sequence[TrajectoryDigest]) -> dict[str, float]:
    """Averages over the trajectories that count, and totals over all of them.

    Args:
        trajectories: every trajectory of a step, masked ones included.

    Returns:
        `docagent/<name>` for each of the environment's numbers (mean), `docagent/reward/<term>/{min,max}`
        beside the means of the reward terms, and the counts `docagent/masked_trajectories`,
        `docagent/masked/<reason>` by `MaskReason`, `docagent/masked/turns`, the mean turns of masked
        trajectories that were played in part, `docagent/retried_trajectories`,
        `docagent/<retriever>/{p50_s,p90_s,p99_s}` over all searches that were not known before,
        `docagent/funnel/<stage>`, the share of the questions with known evidence that came to each stage of
        `docagent_rl.rollout.evidence`, that to whom it was `read_whole`, `zoomed` or shown `as_text`, and
        `guessed`, and `docagent/funnel/unsought_reward`, the share of their rewards that trajectories got
        which neither searched nor opened a page, `docagent/image_preprocessings` (in agent workers and
        rollout servers) and `docagent/image_loads`.
    """
    values: dict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        if not trajectory.masked:
            for name, value in trajectory.metrics.items():
                values[name].append(value)
    metrics = {f"{PREFIX}/{name}": fmean(items) for name, items in values.items()}
    for name, items in values.items():
        if name.startswith("reward/"):
            metrics[f"{PREFIX}/{name}/min"] = min(items)
            metrics[f"{PREFIX}/{name}/max"] = max(items)
    masked = Counter(t.end for t in trajectories if t.masked)
    for reason in MaskReason:
        if reason is not MaskReason.MISSING:
            metrics[f"{PREFIX}/masked/{reason.value}"] = float(masked[reason.value])
    metrics[f"{PREFIX}/masked_trajectories"] = float(masked.total())
    if turns := [len(t.turns) for t in trajectories if t.masked and t.turns]:
        metrics[f"{PREFIX}/masked/turns"] = fmean(turns)
    metrics[f"{PREFIX}/retried_trajectories"] = float(sum(t.attempts > 1 for t in trajectories))
    metrics[f"{PREFIX}/image_preprocessings"] = float(sum(t.image_preprocessings for t in trajectories))
    metrics |= _search_times(trajectories)
    metrics |= {f"{PREFIX}/funnel/{name}": share for name, share in _funnel(trajectories).items()}
    metrics |= _unsought(trajectories)
    metrics[f"{PREFIX}/image_loads"] = float(sum(t.image_loads for t in trajectories))
    return metrics


def _funnel(trajectories: Sequence[TrajectoryDigest]) -> dict[str, float]:
    return shares(
        Evidence(Stage(stage) if stage else None, reach, right, Branch(branch) if branch else None)
        for stage, reach, right, branch in (trajectory.evidence for trajectory in trajectories)
    )


def _unsought(trajectories: Sequence[TrajectoryDigest]) -> dict[str, float]:
    """Of questions with known evidence; empty where nothing is rewarded."""
    rewarded = [(t.reward, t.evidence[0]) for t in trajectories if t.evidence[0] is not None and t.reward > 0]
    total = sum(reward for reward, _ in rewarded)
    unsought = sum(reward for reward, stage in rewarded if stage == Stage.ALL.value)
    return {UNSOUGHT: unsought / total} if total else {}


def unsought_doubt(numbers: Mapping[str, float]) -> str | None:
    """What a run warns of where too much is rewarded without evidence."""
    share = numbers.get(UNSOUGHT, 0.0)
    if share <= MOST_UNSOUGHT:
        return None
    return (
        f"trajectories that neither searched nor opened a page got {share:.0%} of the rewards: "
        "the policy may "
        "learn to answer without the document; `docagent-rl recipes show` says which reward allows it"
    )


def _search_times(trajectories: Sequence[TrajectoryDigest]) -> dict[str, float]:
    """Masked trajectories count too: a service that hangs masks them."""
    seconds: dict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        for name, values in trajectory.search_s.items():
            seconds[name] += values
    return {
        f"{PREFIX}/{name}/p{percent}_s": float(np.percentile(values, percent))
        for name, values in seconds.items()
        for percent in (50, 90, 99)
    }


def mask_reasons(trajectories: Sequence[TrajectoryDigest]) -> dict[str, int]:
    """How many trajectories were masked for each reason."""
    reasons: dict[str, int] = defaultdict(int)
    for trajectory in trajectories:
        if trajectory.masked:
            reasons[f"{trajectory.end}: {trajectory.error}"] += 1
    return dict(reasons)


def turn_report(
    keys: Sequence[str], trajectories: Sequence[TrajectoryDigest], columns: Mapping[str, Tensor]
) -> dict[str, float]:
    """What turns earn and are credited with, whichever estimator they went through (`turn_metrics`).

    Args:
        keys: verl's key of each of the `b` rows.
        trajectories: what is known of each row's trajectory.
        columns: (b, s) by name: `turn_index`, -1 where nothing was sampled, `rm_scores`, `advantages`,
            `returns`, and `values` where there is a critic. Tokens that verl rejected count with the
            advantage 0 that they have.
    """
    inputs = advantage_inputs(
        keys=keys,
        trajectories=trajectories,
        token_rewards=columns["rm_scores"],
        turn_index=columns["turn_index"],
        values=columns.get("values"),
        discounts=Discounts(),
    )
    return turn_metrics(inputs, Advantages(columns["advantages"], columns["returns"]))
