"""Draw the drift of the images over the response KL in the anchoring demonstration."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anchoring.compare import reach, spread_at
from anchoring.results import Arm, Run

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

LABELS = {
    Arm.NONE: "without observation KL",
    Arm.K3: "with it, sampled (k3)",
    Arm.EXACT: "with it, exact",
}
COLOURS = {Arm.NONE: "#d55e00", Arm.K3: "#009e73", Arm.EXACT: "#0072b2"}
PANELS = {
    "distance": "relative L2 drift of visual states",
    "visual_kl": "exact KL at visual positions (nats)",
}
STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "docagent-rl",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
POINTS = 60
"""Number of points of a curve."""


def anchoring_plot(runs: Sequence[Run]) -> str:
    """Draw the curves of all arms, up to the response KL that all runs reach, as SVG.

    A line is the mean over the seeds, and the band around it their range. The same runs give the
    same bytes.
    """
    # only drawing needs matplotlib, which takes a while to import
    import matplotlib as mpl
    from matplotlib.figure import Figure

    grid = np.linspace(0.0, reach(runs), POINTS).tolist()
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9, 3.5), layout="constrained")
        for panel, (name, title) in zip(
            figure.subplots(1, len(PANELS)), PANELS.items(), strict=True
        ):
            for arm in [arm for arm in Arm if any(run.arm is arm for run in runs)]:
                spreads = [spread_at(runs, arm, kl, name) for kl in grid]
                panel.plot(grid, [s.mean for s in spreads], color=COLOURS[arm], label=LABELS[arm])
                panel.fill_between(
                    grid,
                    [s.low for s in spreads],
                    [s.high for s in spreads],
                    color=COLOURS[arm],
                    alpha=0.2,
                    linewidth=0,
                )
            panel.set_title(title, fontsize=10)
            panel.set_xlabel("response KL (nats a token)")
            panel.set_ylim(bottom=0)
            panel.set_xlim(0, grid[-1])
        figure.axes[0].legend(frameon=False)
        file = io.StringIO()
        figure.savefig(
            file, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white"
        )
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"
