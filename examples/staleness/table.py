"""Read the metrics of runs and show them as a table."""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

OFF_POLICY = "training/off_policy"


@dataclass(frozen=True)
class Measured:
    """Metrics of a run.

    They cover all steps but the first, which waits for everything to start; `steps` alone counts
    that one, too.
    """

    steps: int
    """Number of steps."""
    step_s: float
    """Mean seconds of a step, without validation."""
    played: int
    """Number of trajectories that were trained on."""
    dropped: float
    """Number of groups that were sampled and not trained on."""
    lag: float
    """Mean number of updates between the last weights that sampled a trajectory and the weights
    that it trains.
    """
    lag_most: float
    """Largest number of updates between the first weights that sampled a trajectory and the weights
    that it trains.
    """
    span: float
    """Mean number of versions of the weights that sampled a trajectory."""
    span_most: float
    """Largest number of versions of the weights that sampled a trajectory."""
    apart: float
    """Mean KL between server and trainer over the steps, in nats per token."""


def read_run(folder: Path) -> Measured:
    """Read the metrics of a run's steps."""
    files = sorted((folder / "metrics").glob("[0-9]*.json"), key=lambda file: int(file.stem))
    steps = [json.loads(file.read_text()) for file in files]
    late = steps[1:]

    def mean(name: str) -> float:
        return fmean(step[f"{OFF_POLICY}/{name}/mean"] for step in late)

    def most(name: str) -> float:
        return max(step[f"{OFF_POLICY}/{name}/max"] for step in late)

    return Measured(
        steps=len(steps),
        step_s=fmean(step["timing_s/step"] for step in late),
        played=int(sum(step["docagent/trajectories/trained"] for step in late)),
        dropped=sum(step.get(f"{OFF_POLICY}/evicted_samples", 0) for step in late),
        lag=mean("trajectory_staleness"),
        lag_most=most("trajectory_staleness_worst"),
        span=mean("trajectory_spans"),
        span_most=most("trajectory_spans"),
        apart=fmean(step["rollout_corr/kl"] for step in late),
    )


def table(runs: dict[str, Measured]) -> str:
    """Return a Markdown table with one row for each run."""
    head = (
        "setting",
        "seconds a step",
        "trained",
        "groups dropped",
        "updates behind, mean (most)",
        "versions a trajectory, mean (most)",
        "nats apart",
    )
    lines = [" | ".join(head), " | ".join("---" for _ in head)]
    for name, run in runs.items():
        cells = (
            name,
            f"{run.step_s:.1f}",
            str(run.played),
            f"{run.dropped:.0f}",
            f"{run.lag:.2f} ({run.lag_most:.0f})",
            f"{run.span:.2f} ({run.span_most:.0f})",
            f"{run.apart:.1e}",
        )
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)
