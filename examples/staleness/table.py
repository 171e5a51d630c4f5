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
    updates_behind: float
    """Mean number of updates between the last weights that sampled a trajectory and the weights
    that it trains.
    """
    most_updates_behind: float
    """Largest number of updates between the first weights that sampled a trajectory and the weights
    that it trains.
    """
    versions: float
    """Mean number of versions of the weights that sampled a trajectory."""
    most_versions: float
    """Largest number of versions of the weights that sampled a trajectory."""
    server_kl: float
    """Mean KL between server and trainer over the steps, in nats per token."""


def read_run(folder: Path) -> Measured:
    """Read the metrics of a run's steps."""
    files = sorted((folder / "metrics").glob("[0-9]*.json"), key=lambda file: int(file.stem))
    steps = [json.loads(file.read_text()) for file in files]
    measured_steps = steps[1:]

    def mean(name: str) -> float:
        return fmean(step[f"{OFF_POLICY}/{name}/mean"] for step in measured_steps)

    def most(name: str) -> float:
        return max(step[f"{OFF_POLICY}/{name}/max"] for step in measured_steps)

    return Measured(
        steps=len(steps),
        step_s=fmean(step["timing_s/step"] for step in measured_steps),
        played=int(sum(step["docagent/trajectories/trained"] for step in measured_steps)),
        dropped=sum(step.get(f"{OFF_POLICY}/evicted_samples", 0) for step in measured_steps),
        updates_behind=mean("trajectory_staleness"),
        most_updates_behind=most("trajectory_staleness_worst"),
        versions=mean("trajectory_spans"),
        most_versions=most("trajectory_spans"),
        server_kl=fmean(step["rollout_corr/kl"] for step in measured_steps),
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
            f"{run.updates_behind:.2f} ({run.most_updates_behind:.0f})",
            f"{run.versions:.2f} ({run.most_versions:.0f})",
            f"{run.server_kl:.1e}",
        )
        lines.append(" | ".join(cells))
    return "\n".join(f"| {line} |" for line in lines)
