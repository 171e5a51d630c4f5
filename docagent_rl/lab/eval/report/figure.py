"""The picture of a report: headline numbers with their intervals, beside the papers'."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docagent_rl.base.terminal import visible
from docagent_rl.lab.eval.report.grid import MARK
from docagent_rl.lab.eval.report.runs import RunReport
from docagent_rl.lab.eval.report.statistics import ALL, Interval, Row
from docagent_rl.lab.eval.report.tables import OVERALL, overall
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from docagent_rl.lab.eval.scoring.scored import Unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_LINES = 40
"""Lines of a panel; the tables have all."""
_WIDTH = 64


@dataclass(frozen=True, slots=True)
class _Line:
    """A percentage of every run, `None` of one without it, and those that papers print."""

    label: str
    runs: tuple[Interval | None, ...]
    printed: tuple[float, ...]


def figure(runs: Sequence[RunReport], datasets: Sequence[str]) -> str:
    """Return the picture as SVG, the same bytes for the same report; texts are never markup or formulae."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    whole = [
        _Line(f"{each.title}{MARK if each.ruled else ''}", each.numbers, tuple(each.printed.values()))
        for each in overall(runs)
    ]
    panels = [(OVERALL, whole)] if whole else []
    panels += [(protocol_of(dataset).name, _lines(runs, dataset)) for dataset in datasets]
    heights = [max(1, len(lines)) for _, lines in panels]
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
        for place, (title, lines) in enumerate(panels):
            _panel(axes[place][0], title, lines, len(runs))
        if runs:
            _legend(drawn, runs)
        buffer = io.StringIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(drawn)
    return buffer.getvalue()


def _lines(runs: Sequence[RunReport], dataset: str) -> list[_Line]:
    """Return the percentages of the answers, other numbers that a paper prints, then the headline by line."""
    every = [run.on(dataset) for run in runs]
    reports = [report for report in every if report is not None]
    headline = reports[0].headline
    answers = [number for each in reports for number in each.answers]
    parts = sorted((n for each in reports for n in each.parts), key=lambda n: (n.measure.name, n.row))
    printed: dict[tuple[str, Row], list[float]] = {}
    for against in (each for run in runs for each in run.papers if each.dataset == dataset):
        for target in (beside.target for beside in against.numbers):
            printed.setdefault((target.measure, target.row), []).append(target.value)
    beside = [n for each in reports for n in (*each.use, *parts) if (n.measure.name, n.row) in printed]
    headlines = [number for number in parts if number.measure.name == headline.name]
    ruled = {number.measure.name for number in answers if number.ruled}
    found: dict[tuple[str, Row], _Line] = {}
    for number in (*answers, *beside, *headlines):
        key = number.measure.name, number.row
        if number.measure.unit is Unit.PERCENT and key not in found:
            label = number.measure.title
            if number.row != ALL:
                title = "" if number.measure.name == headline.name else f"{label}, "
                label = f"{title}{number.row[0]}: {number.row[1]}"
            label += MARK if number.measure.name in ruled else ""
            numbers = [None if report is None else report.number(*key) for report in every]
            ends = tuple(None if each is None else each.interval for each in numbers)
            found[key] = _Line(label, ends, tuple(printed.get(key, ())))
    return list(found.values())[:_LINES]


def _panel(axes: Axes, title: str, lines: Sequence[_Line], count: int) -> None:
    for place, line in enumerate(lines):
        for number, run in enumerate(line.runs):
            if run is None or run.value is None:
                continue
            colour = COLOURS[number % len(COLOURS)]
            height = place + (0.0 if count == 1 else 0.5 * (number / (count - 1) - 0.5))
            if run.low is not None and run.high is not None:
                axes.plot([100 * run.low, 100 * run.high], [height] * 2, color=colour)
            axes.plot(100 * run.value, height, "o", color=colour, markersize=4)
        for value in line.printed:
            axes.plot(value, place, "D", color="#444444", markersize=4, fillstyle="none")
    axes.set_title(_safe(title), fontsize=9, loc="left").set_parse_math(False)
    axes.set_yticks(range(len(lines)))
    for label in axes.set_yticklabels([_safe(line.label) for line in lines]):
        label.set_parse_math(False)
    axes.set(xlim=(-2, 102), ylim=(len(lines) - 0.4, -0.6))
    axes.grid(axis="x", linewidth=0.4)


def _legend(drawn: Figure, runs: Sequence[RunReport]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", color=COLOURS[number % len(COLOURS)]) for number in range(len(runs))
    ]
    # a name that begins with an underscore would be left out
    names = [f"run {number}: {_safe(run.name)}" for number, run in enumerate(runs, 1)]
    if any(number.ruled for run in runs for report in run.benchmarks for number in report.answers):
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
