"""Draw the bias card as a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from bias_card.card import Measured, Verdict

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

_COLOURS = {
    Verdict.UNBIASED: "#1a7f37",
    Verdict.SCALED: "#0969da",
    Verdict.UNEVEN: "#bf8700",
    Verdict.BIASED: "#cf222e",
    Verdict.SILENT: "#6e7781",
}
_MARKERS = {
    Verdict.UNBIASED: "o",
    Verdict.SCALED: "s",
    Verdict.UNEVEN: "D",
    Verdict.BIASED: "X",
    Verdict.SILENT: "P",
}
_STYLE: dict[RcKeyType, Any] = {
    "svg.hashsalt": "docagent-rl",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
}


def bias_plot(card: Sequence[Measured], group_size: int) -> str:
    """Draw expected over true gradient of both decisions as SVG.

    The same card gives the same bytes.
    """
    # only drawing needs matplotlib, which takes a while to import
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    heights = _heights(card)
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(9.5, 0.235 * heights[-1] + 1.5))
        axes = figure.subplots(1, 2, sharex=True, sharey=True)
        titles = ("going on: E1 / g1", "picking well: E2 / g2")
        for decision, (panel, title) in enumerate(zip(axes, titles, strict=True)):
            panel.set_title(title, fontsize=10, pad=14)
            for at, label in ((0.0, ""), (card[0].u, "u"), (1.0, "1")):
                panel.axvline(at, color="#8c959f", linewidth=0.8, linestyle="-" if at == 0 else ":")
                panel.annotate(
                    label, (at, -1.1), ha="center", va="bottom", color="#57606a", fontsize=8
                )
            for each, height in zip(card, heights, strict=True):
                ratio = round(each.ratio[decision], 6)
                colour = _COLOURS[each.verdict]
                marker = _MARKERS[each.verdict]
                panel.plot([0, ratio], [height, height], color=colour, linewidth=1.4, alpha=0.45)
                panel.plot(
                    [ratio], [height], color=colour, marker=marker, markersize=5.5, linestyle=""
                )
            panel.tick_params(axis="y", length=0)
            panel.margins(x=0.06)
        axes[0].set_yticks(heights, [each.row.name.replace("`", "") for each in card])
        axes[0].set_ylim(heights[-1] + 0.8, -1.2)
        legend = [
            Line2D([], [], color=_COLOURS[v], marker=_MARKERS[v], linestyle="", label=str(v))
            for v in Verdict
        ]
        figure.legend(handles=legend, loc="lower center", ncols=len(legend), frameon=False)
        figure.suptitle(
            f"Gradient on average / true gradient, groups of {group_size}", fontsize=11, y=0.99
        )
        inch = 1 / figure.get_figheight()
        figure.subplots_adjust(
            left=0.335, right=0.985, top=1 - 0.72 * inch, bottom=0.68 * inch, wspace=0.06
        )
        file = io.StringIO()
        figure.savefig(
            file, format="svg", metadata={"Date": None, "Creator": None}, facecolor="white"
        )
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _heights(card: Sequence[Measured]) -> list[float]:
    """Return the height of each estimator's line, with gaps between families."""
    heights = []
    at = -1.0
    for number, each in enumerate(card):
        at += 1.0 if number == 0 or each.row.family == card[number - 1].row.family else 1.7
        heights.append(at)
    return heights
