"""Draw the results: the reward during training, and the held-out reward before and after."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docagent_rl.base.io import atomic_write
from learning.choices import Arm, Estimator
from learning.results import RunResult
from learning.statistics import Interval, over_seeds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {Estimator.GRPO: "#0072b2", Estimator.SPO: "#009e73", Estimator.TURN_GAE: "#d55e00"}
WINDOW = 5
"""The number of steps over which a point of a curve averages."""


def draw(results: Sequence[RunResult], path: Path) -> Path:
    """Write the picture as SVG; the same results give the same bytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "docagent-rl", "svg.fonttype": "none", "font.size": 9}):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        _curves(left, results)
        _bars(right, results)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return atomic_write(path, buffer.getvalue())


def smoothed(curve: Sequence[float], window: int = WINDOW) -> np.ndarray:
    """Return trailing means: point `i` averages the last `window` values up to `i`.

    At the beginning it averages the fewer values so far.
    """
    sums = np.concatenate([[0.0], np.cumsum(np.asarray(curve, dtype=float))])
    ends = np.arange(1, len(curve) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _groups(results: Sequence[RunResult]) -> list[tuple[Estimator, Arm, list[RunResult]]]:
    """Return the runs of each estimator and arm that has any."""
    groups = []
    for estimator in Estimator:
        for arm in Arm:
            runs = [run for run in results if run.estimator is estimator and run.arm is arm]
            if runs:
                groups.append((estimator, arm, runs))
    return groups


def _label(estimator: Estimator, arm: Arm) -> str:
    return estimator.value if arm is Arm.REWARD else f"{estimator.value}, shuffled"


def _curves(axes: Axes, results: Sequence[RunResult]) -> None:
    for estimator, arm, runs in _groups(results):
        style = "-" if arm is Arm.REWARD else ":"
        curves = [smoothed(run.curve) for run in runs]
        length = min(map(len, curves))
        points = [over_seeds([float(curve[step]) for curve in curves]) for step in range(length)]
        steps = np.arange(1, length + 1)
        colour = COLOURS[estimator]
        axes.plot(
            steps, [p.mean for p in points], style, color=colour, label=_label(estimator, arm)
        )
        if len(runs) > 1:
            low = [p.low for p in points]
            high = [p.high for p in points]
            axes.fill_between(steps, low, high, color=colour, alpha=0.12, linewidth=0)
    axes.set(xlabel="step", ylabel="reward of sampled trajectories", ylim=(0, 1.02))
    axes.legend(frameon=False, fontsize=7)


def _bars(axes: Axes, results: Sequence[RunResult]) -> None:
    labels = []
    for position, (estimator, arm, runs) in enumerate(_groups(results)):
        values = {
            "warm start": ([run.before.mean for run in runs], "#bbbbbb"),
            "trained": ([run.after.mean for run in runs], COLOURS[estimator]),
            "trained, blank pages": ([run.blank_after.mean for run in runs], "#eeeeee"),
        }
        for number, (name, (means, colour)) in enumerate(values.items()):
            interval = over_seeds(means)
            axes.bar(
                position + 0.27 * (number - 1),
                interval.mean,
                width=0.25,
                color=colour,
                edgecolor="#555555",
                linewidth=0.5,
                yerr=_error(interval),
                error_kw={"linewidth": 0.8},
                label=name if position == 0 else None,
            )
        labels.append(_label(estimator, arm).replace(", ", "\n"))
    axes.set_xticks(range(len(labels)), labels, fontsize=7)
    axes.set(ylabel="held-out reward, greedy", ylim=(0, 1.15))
    axes.legend(frameon=False, fontsize=7, ncols=3, loc="upper center")


def _error(interval: Interval) -> list[list[float]] | None:
    """Return the error bar's lengths below and above the mean, cut to the range of rewards."""
    if np.isnan(interval.low):
        return None
    low = max(interval.low, 0.0)
    high = min(interval.high, 1.0)
    return [[interval.mean - low], [max(high - interval.mean, 0.0)]]
