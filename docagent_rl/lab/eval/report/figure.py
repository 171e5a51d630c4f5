"""The picture of a report: headline numbers with their intervals, beside the papers'."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

from docagent_rl.base.terminal import visible
from docagent_rl.lab.eval.report.grid import MARK
from docagent_rl.lab.eval.report.lines import OVERALL, Line, lines, overall
from docagent_rl.lab.eval.report.runs import RunReport
from docagent_rl.lab.eval.report.statistics import ALL
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import JUDGED, protocol_of
from docagent_rl.lab.eval.scoring.scored import Measure, Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_LINES = 40
"""Lines of a panel; the tables have all."""
_WIDTH = 64


def figure(runs: Sequence[RunReport], datasets: Sequence[str]) -> str:
    """Return the picture as SVG, the same bytes for the same report; texts are never markup or formulae."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    whole = overall(runs)
    panels = [(OVERALL, JUDGED, whole)] if whole else []
    for protocol, dataset in ((protocol_of(dataset), dataset) for dataset in datasets):
        panels.append((protocol.name, protocol.headline, _drawn(runs, dataset, protocol.headline)))
    heights = [max(1, len(found)) for *_, found in panels]
    with (
        pyplot.rc_context({"svg.hashsalt": "docagent-rl", "svg.fonttype": "none", "font.size": 8}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of letters that the font lacks: the reader's has them
        drawn, axes = pyplot.subplots(
            len(panels) or 1, 1, squeeze=False, layout="constrained",
            figsize=(8, 1.2 + sum(0.22 * (height + 2) for height in heights)),
            gridspec_kw={"height_ratios": heights or [1]},
        )  # fmt: skip
        for place, (title, headline, found) in enumerate(panels):
            _panel(axes[place][0], title, headline, found, len(runs))
        if runs:
            _legend(drawn, runs)
        buffer = io.StringIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(drawn)
    return buffer.getvalue()


def _drawn(runs: Sequence[RunReport], dataset: str, headline: Measure) -> list[Line]:
    """Return the percentages of the answers, other numbers that a paper prints, then the headline by line."""
    parts = sorted(lines(runs, dataset, "breakdowns"), key=lambda line: (line.measure.name, line.row))
    found = [
        *lines(runs, dataset, "answers"),
        *(line for line in (*lines(runs, dataset, "use"), *parts) if line.printed),
        *(line for line in parts if line.measure.name == headline.name and not line.printed),
    ]
    return [line for line in found if line.measure.unit is Unit.PERCENT][:_LINES]


def _label(line: Line, headline: Measure) -> str:
    text = line.title
    if line.row != ALL:
        title = "" if line.measure.name == headline.name else f"{text}, "
        text = f"{title}{line.row[0]}: {line.row[1]}"
    return _safe(f"{text}{MARK if line.ruled else ''}")


def _panel(axes: Axes, title: str, headline: Measure, found: Sequence[Line], count: int) -> None:
    for place, line in enumerate(found):
        for number, run in enumerate(line.numbers):
            if run is None or run.interval.value is None:
                continue
            low, high, colour = run.interval.low, run.interval.high, COLOURS[number % len(COLOURS)]
            height = place + (0.0 if count == 1 else 0.5 * (number / (count - 1) - 0.5))
            if low is not None and high is not None:
                axes.plot([100 * low, 100 * high], [height] * 2, color=colour)
            axes.plot(100 * run.interval.value, height, "o", color=colour, markersize=4)
        for _, value in line.printed:
            axes.plot(value, place, "D", color="#444444", markersize=4, fillstyle="none")
    axes.set_title(_safe(title), fontsize=9, loc="left").set_parse_math(False)
    axes.set_yticks(range(len(found)))
    for label in axes.set_yticklabels([_label(line, headline) for line in found]):
        label.set_parse_math(False)
    axes.set(xlim=(-2, 102), ylim=(len(found) - 0.4, -0.6))
    axes.grid(axis="x", linewidth=0.4)


def _legend(drawn: Figure, runs: Sequence[RunReport]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", color=COLOURS[number % len(COLOURS)]) for number in range(len(runs))
    ]
    # a name that begins with an underscore would be left out
    names = [f"run {number}: {_safe(run.name)}" for number, run in enumerate(runs, 1)]
    if any(number.ruled for run in runs for each in run.benchmarks.values() for number in each.answers):
        handles.append(Line2D([], [], linestyle=""))
        names.append(f"{MARK} {Author.RULE.value}, no model")
    if any(run.papers for run in runs):
        handles.append(Line2D([], [], marker="D", color="#444444", fillstyle="none", linestyle=""))
        names.append("paper")
    legend = drawn.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
    for text in legend.get_texts():
        text.set_parse_math(False)


def _safe(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."
