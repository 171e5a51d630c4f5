"""The picture of a report: headline numbers with their intervals, beside the papers'."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docagent_rl.eval.report.build import Number
from docagent_rl.eval.report.grids import MARK, RunView
from docagent_rl.eval.report.sums import ALL, Row
from docagent_rl.eval.scoring.experts import Author
from docagent_rl.eval.scoring.measures import Measure, Unit
from docagent_rl.terminal import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_LINES = 40
"""Lines of a panel; the tables have all."""
_LABEL = 56


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    measure: Measure
    row: Row


def figure(views: Sequence[RunView], datasets: Sequence[str]) -> str:
    """The picture as SVG; the same report gives the same bytes. Texts in it are never markup or formulae."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = [(dataset, _lines(views, dataset)) for dataset in datasets]
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
        for place, (dataset, lines) in enumerate(panels):
            _panel(axes[place][0], views, dataset, lines)
        if views:
            _legend(drawn, views)
        buffer = io.StringIO()
        drawn.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(drawn)
    return buffer.getvalue()


def _lines(views: Sequence[RunView], dataset: str) -> list[_Line]:
    """The percentages of the answers, what else a paper prints, then the headline by line."""
    reports = [report for view in views if (report := view.on(dataset)) is not None]
    headline = reports[0].headline
    answers = [number for each in reports for number in each.answers]
    parts = sorted((n for each in reports for n in each.parts), key=lambda n: (n.measure.name, n.row))
    printed = {
        (beside.target.measure, beside.target.row)
        for view in views
        for against in view.papers
        for beside in (against.numbers if against.dataset == dataset else ())
    }
    beside = [n for each in reports for n in (*each.use, *parts) if (n.measure.name, n.row) in printed]
    headlines = [number for number in parts if number.measure.name == headline.name]
    ruled = {number.measure.name for number in answers if number.ruled}
    shown = [number for number in (*answers, *beside, *headlines) if number.measure.unit is Unit.PERCENT]
    lines = {(n.measure.name, n.row): _line(n, headline, n.measure.name in ruled) for n in shown}
    return list(lines.values())[:_LINES]


def _line(number: Number, headline: Measure, ruled: bool) -> _Line:
    """A line of a breakdown is of the headline where it names no number."""
    measure, (kind, value) = number.measure, number.row
    title = "" if measure.name == headline.name else f"{measure.title}, "
    label = measure.title if number.row == ALL else f"{title}{kind}: {value}"
    return _Line(f"{label}{MARK if ruled else ''}", measure, number.row)


def _panel(axes: Axes, views: Sequence[RunView], dataset: str, lines: Sequence[_Line]) -> None:
    count = len(views)
    for number, view in enumerate(views):
        report, colour = view.on(dataset), COLOURS[number % len(COLOURS)]
        shift = 0.0 if count == 1 else 0.5 * (number / (count - 1) - 0.5)
        for place, line in enumerate(lines):
            found = None if report is None else report.number(line.measure.name, line.row)
            if found is not None and found.interval.value is not None:
                ends = found.interval.low, found.interval.high
                if None not in ends:
                    axes.plot(
                        [100 * end for end in ends if end is not None], [place + shift] * 2, color=colour
                    )
                axes.plot(100 * found.interval.value, place + shift, "o", color=colour, markersize=4)
        for against in view.papers:
            for beside in against.numbers if against.dataset == dataset else ():
                wanted = beside.target.measure, beside.target.row
                for place, line in enumerate(lines):
                    if wanted == (line.measure.name, line.row):
                        axes.plot(
                            beside.target.value, place, "D", color="#444444", markersize=4, fillstyle="none"
                        )
    title = next(report.title for view in views if (report := view.on(dataset)) is not None)
    axes.set_title(_safe(title), fontsize=9, loc="left").set_parse_math(False)
    axes.set_yticks(range(len(lines)))
    for label in axes.set_yticklabels([_safe(line.label) for line in lines]):
        label.set_parse_math(False)
    axes.set(xlim=(-2, 102), ylim=(len(lines) - 0.4, -0.6))
    axes.grid(axis="x", linewidth=0.4)


def _legend(drawn: object, views: Sequence[RunView]) -> None:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], marker="o", color=COLOURS[number % len(COLOURS)]) for number in range(len(views))
    ]
    # a name that begins with an underscore would be left out
    names = [f"run {number}: {_safe(view.report.name)}" for number, view in enumerate(views, 1)]
    reports = [report for view in views for report in view.report.benchmarks]
    if any(number.ruled for report in reports for number in report.answers):
        handles.append(Line2D([], [], linestyle=""))
        names.append(f"{MARK} {Author.RULE.value}, no model")
    if any(view.papers for view in views):
        handles.append(Line2D([], [], marker="D", color="#444444", fillstyle="none", linestyle=""))
        names.append("paper")
    if isinstance(drawn, Figure):
        legend = drawn.legend(handles, names, loc="outside lower center", ncols=3, frameon=False)
        for text in legend.get_texts():
            text.set_parse_math(False)


def _safe(text: str) -> str:
    line = " ".join(visible(text).split())
    return line if len(line) <= _LABEL else f"{line[: _LABEL - 3]}..."
