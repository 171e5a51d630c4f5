"""The numbers of runs as a table."""

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

OFF_POLICY = "training/off_policy"


@dataclass(frozen=True)
class Measured:
    """The numbers of a run, over all of its steps but the first, which waits for everything to
    start.
    """

    steps: int
    step_s: float
    """Seconds a step, without validation."""
    played: int
    """Trajectories that were trained on."""
    dropped: float
    """Groups that were played and thrown away."""
    lag: float
    """Updates from the last weights that a trajectory was sampled by to those that it trains; the
    mean.
    """
    lag_most: float
    span: float
    """Versions of the weights that a trajectory was sampled by, the mean."""
    span_most: float
    apart: float
    """Nats a token between server and trainer, the mean of the steps."""


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
    """Return a table of Markdown, a row a run."""
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
