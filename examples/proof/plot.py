"""Draw the results in one row for each system: reward during training, and held-out answers."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from learning.plot import smoothed
from proof.results import UnitResult
from proof.statistics import over_seeds
from proof.table import groups
from proof.unit import REWARD, SHUFFLED

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS_OF_ABLATIONS = ("#d55e00", "#cc79a7", "#e69f00", "#56b4e9")
_COLOURS_OF_ARMS = {REWARD: "#0072b2", SHUFFLED: "#999999"}


def draw_results(results: Sequence[UnitResult], path: Path) -> Path:
    """Write the picture as SVG; the same results give the same bytes.

    Raises:
        UserError: there is no result.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    systems = sorted({result.system for result in results})
    if not systems:
        raise UserError("there is no result to draw")
    with pyplot.rc_context({"svg.hashsalt": "docagent-rl", "svg.fonttype": "none", "font.size": 9}):
        size = (9, 2.6 * len(systems))
        figure, axes = pyplot.subplots(
            len(systems), 2, figsize=size, layout="constrained", squeeze=False
        )
        for system, (left, right) in zip(systems, axes, strict=True):
            runs = groups(result for result in results if result.system == system)
            colours = _colours([group[0].arm for group in runs])
            _curves(left, runs, colours)
            left.set_title(system, loc="left", fontsize=9)
            _bars(right, runs, colours)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return atomic_write(path, buffer.getvalue())


def _colours(arms: Sequence[str]) -> dict[str, str]:
    """Return a colour for each arm; with many ablations, colours repeat."""
    ablations = [arm for arm in arms if arm not in _COLOURS_OF_ARMS]
    colours = zip(ablations, itertools.cycle(_COLOURS_OF_ABLATIONS), strict=False)
    return {**_COLOURS_OF_ARMS, **dict(colours)}


def _curves(axes: Axes, runs: Sequence[Sequence[UnitResult]], colours: dict[str, str]) -> None:
    for group in runs:
        for number, run in enumerate(group):
            curve = smoothed(run.curve)
            label = run.arm if number == 0 else None
            axes.plot(
                np.arange(1, len(curve) + 1),
                curve,
                color=colours[run.arm],
                label=label,
                linewidth=1,
            )
    axes.set(xlabel="step", ylabel="reward, sampled")
    axes.legend(frameon=False, fontsize=7)


def _bars(axes: Axes, runs: Sequence[Sequence[UnitResult]], colours: dict[str, str]) -> None:
    for position, group in enumerate(runs):
        values = {
            "warm start": ([run.before.accuracy for run in group], "#bbbbbb"),
            "trained": ([run.after.accuracy for run in group], colours[group[0].arm]),
            "trained, blank pages": ([run.blank_after.accuracy for run in group], "#eeeeee"),
        }
        for number, (name, (accuracies, colour)) in enumerate(values.items()):
            x = position + 0.27 * (number - 1)
            label = name if position == 0 else None
            mean = over_seeds(accuracies).mean
            axes.bar(
                x, mean, width=0.25, color=colour, edgecolor="#555555", linewidth=0.5, label=label
            )
            # a dot for each seed
            axes.plot([x] * len(accuracies), accuracies, ".", color="#333333", markersize=3)
    axes.set_xticks(
        range(len(runs)), [group[0].arm.replace("_", "\n") for group in runs], fontsize=7
    )
    axes.set(ylabel="held-out, right", ylim=(0, 1.15))
    axes.legend(frameon=False, fontsize=7, ncols=3, loc="upper center")
