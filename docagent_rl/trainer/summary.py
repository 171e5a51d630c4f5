"""Numbers of a batch of sessions, by name."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import fmean

from docagent_rl.rollout.trajectory import Trajectory

PREFIX = "docagent"


def summarise(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Averages over the sessions that count, and totals over all of them.

    Args:
        trajectories: every session of a step, masked ones included.

    Returns:
        `docagent/<name>` for each of the environment's numbers (mean), `docagent/reward/<term>/{min,max}`
        beside the means of the reward terms, and the counts `docagent/masked_trajectories`,
        `docagent/retried_sessions` and `docagent/image_preprocessings`.
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
    metrics[f"{PREFIX}/masked_trajectories"] = float(sum(t.masked for t in trajectories))
    metrics[f"{PREFIX}/retried_sessions"] = float(sum(t.attempts > 1 for t in trajectories))
    metrics[f"{PREFIX}/image_preprocessings"] = float(sum(t.image_preprocessings for t in trajectories))
    return metrics


def mask_reasons(trajectories: Sequence[Trajectory]) -> dict[str, int]:
    """How many sessions were masked for each reason."""
    reasons: dict[str, int] = defaultdict(int)
    for trajectory in trajectories:
        if trajectory.masked:
            reasons[f"{trajectory.end}: {trajectory.error}"] += 1
    return dict(reasons)
