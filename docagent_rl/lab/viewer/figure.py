"""The evidence funnel as a picture."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444")
_MOST = 12
"""Groups of a picture."""
_LABEL = 48


def funnel_figure(found: Mapping[str, Any], by: str) -> str:
    """Return the picture as SVG, the same for the same counts; texts in it are never markup or formulae.

    Args:
        found: see `funnel.funnel`.
        by: the field that was counted apart; steps become lines, all else bars.

    Raises:
        UserError: no trajectory has known evidence.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.text import Text

    groups = [group for group in found["groups"] if group["trajectories"]]
    if not groups:
        raise UserError("no trajectory with known evidence: there is no funnel to draw")
    with (
        pyplot.rc_context({"svg.hashsalt": "docagent-rl", "svg.fonttype": "none", "font.size": 9}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of letters that the font lacks: the reader's has them
        drawn, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
        if by == "step":
            _lines(axes, sorted(groups, key=lambda group: int(group["key"])), found["stages"])
        else:
            _bars(axes, groups[:_MOST], found["stages"])
        axes.set_ylim(0, 1.08)
        axes.set_ylabel("share of the trajectories whose evidence is known")
        axes.grid(axis="y", linewidth=0.4)
        axes.legend(fontsize=7)
        for text in drawn.findobj(Text):
            text.set_parse_math(False)
        buffer = io.StringIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(drawn)
    return buffer.getvalue()


def _bars(axes: Axes, groups: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[str, str]]) -> None:
    width = 0.8 / len(groups)
    known = [stage for stage in stages if any(group["counts"][stage["id"]] is not None for group in groups)]
    for number, group in enumerate(groups):
        counts = [group["counts"][stage["id"]] for stage in known]
        bars = axes.bar(
            [place - 0.4 + width * (number + 0.5) for place in range(len(known))],
            [(count or 0) / group["trajectories"] for count in counts],
            width,
            label=f"{_safe(group['key'])} ({group['trajectories']})",
            color=COLOURS[number % len(COLOURS)],
        )
        if len(groups) <= 3:
            axes.bar_label(bars, ["" if count is None else str(count) for count in counts], fontsize=7)
    axes.set_xticks(range(len(known)), [stage["label"] for stage in known])


def _lines(axes: Axes, groups: Sequence[Mapping[str, Any]], stages: Sequence[Mapping[str, str]]) -> None:
    for number, stage in enumerate(stages[1:]):
        known = [group for group in groups if group["counts"][stage["id"]] is not None]
        if known:
            axes.plot(
                [int(group["key"]) for group in known],
                [group["counts"][stage["id"]] / group["trajectories"] for group in known],
                marker="o",
                markersize=3,
                label=stage["label"],
                color=COLOURS[number % len(COLOURS)],
            )
    axes.set_xlabel("step")


def _safe(text: str) -> str:
    shown = visible(text).replace("\n", " ")
    return shown if len(shown) <= _LABEL else f"{shown[: _LABEL - 1]}…"
