"""Draw the runs of a system: `python -m small_model.figure RUNS`.

RUNS is the folder of the runs, which must contain `report/report.json`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from small_model.table import table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEASURES = ("rule", "page_recall", "invalid_rate")
"""The measures that are drawn, by their names in the report; those that a run lacks are omitted."""
COLOURS = ("#0072b2", "#d55e00", "#009e73")
PICTURE = "small_model.svg"
TABLES = "small_model.md"


@dataclass(frozen=True, slots=True)
class Bar:
    """A number of a run on a set of questions, in per cent.

    Args:
        run: the run's name.
        questions: the name of the set of questions.
        value: the number.
        low: the lower end of its interval; None if it has none.
        high: the upper end.
    """

    run: str
    questions: str
    value: float
    low: float | None
    high: float | None


def bars(report: Mapping[str, Any], measure: str) -> tuple[str, list[Bar]]:
    """Collect one measure of all runs.

    Returns:
        the measure's title, empty if no run has it, and the numbers in the order of the runs.
    """
    title = ""
    found = []
    for run in report["runs"]:
        for name, benchmark in run["benchmarks"].items():
            for number in (*benchmark["answers"], *benchmark["use"]):
                if number["measure"] == measure and number["value"] is not None:
                    title = number["title"] + (" †" if number["rule_judge"] else "")
                    found.append(
                        Bar(
                            run["name"],
                            name,
                            value=100 * number["value"],
                            low=_per_cent(number["low"]),
                            high=_per_cent(number["high"]),
                        )
                    )
    return title, found


def _per_cent(share: float | None) -> float | None:
    return None if share is None else 100 * share


def rewards(metrics: Path) -> list[float]:
    """Read the mean reward of every step of reinforcement learning, in order.

    The list is empty if there is no step yet.
    """
    files = sorted(
        (file for file in metrics.glob("*.json") if file.stem.isdecimal()),
        key=lambda f: int(f.stem),
    )
    read = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    return [step["critic/score/mean"] for step in read if "critic/score/mean" in step]


def draw(report: Mapping[str, Any], curve: Sequence[float]) -> str:
    """Draw the picture as SVG; the same numbers give the same bytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = []
    for measure in MEASURES:
        title, found = bars(report, measure)
        if found:
            panels.append((title, found))

    with pyplot.rc_context({"svg.hashsalt": "docagent-rl", "svg.fonttype": "none", "font.size": 8}):
        count = len(panels) + bool(curve)
        figure, axes = pyplot.subplots(
            1, count, figsize=(3.2 * count, 3.6), layout="constrained", squeeze=False
        )
        runs = [run["name"] for run in report["runs"]]
        for panel, (title, found) in zip(axes[0], panels, strict=False):
            _bars(panel, title, found, runs)
        if curve:
            axes[0][-1].plot(range(1, len(curve) + 1), curve, color=COLOURS[0], marker=".")
            axes[0][-1].set(title="mean reward while training", xlabel="step of RL")
        axes[0][0].legend(loc="lower right", frameon=False)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    return buffer.getvalue()


def _bars(axes: Axes, title: str, found: Sequence[Bar], runs: Sequence[str]) -> None:
    sets = list(dict.fromkeys(bar.questions for bar in found))
    height = 0.8 / len(sets)
    for row, name in enumerate(sets):
        of_set = [bar for bar in found if bar.questions == name]
        # the bars of a run lie beside each other, around the number of the run
        offset = height * (row - (len(sets) - 1) / 2)
        positions = [runs.index(bar.run) + offset for bar in of_set]
        errors = [_error_lengths(bar) for bar in of_set]
        axes.barh(
            positions,
            [bar.value for bar in of_set],
            height,
            xerr=list(zip(*errors, strict=True)),
            color=COLOURS[row % len(COLOURS)],
            label=name,
            ecolor="#555",
        )
    axes.set(
        title=title, xlabel="per cent", yticks=range(len(runs)), yticklabels=runs, xlim=(0, 105)
    )
    axes.invert_yaxis()


def _error_lengths(bar: Bar) -> tuple[float, float]:
    """Return the lengths of an error bar below and above its value; 0 without an interval."""
    low = bar.value if bar.low is None else bar.low
    high = bar.value if bar.high is None else bar.high
    return max(0.0, bar.value - low), max(0.0, high - bar.value)


def write(runs: Path) -> Path:
    """Draw the runs of a system, and write tables of their numbers beside the picture.

    Args:
        runs: the folder of the runs.

    Raises:
        UserError: there is no report on the runs.
    """
    report = runs / "report" / "report.json"
    if not report.is_file():
        raise UserError(f"{report} is missing: run the stage `report` of this study")
    read = json.loads(report.read_text(encoding="utf-8"))
    atomic_write(runs / TABLES, table(read))
    return atomic_write(runs / PICTURE, draw(read, rewards(runs / "rl" / "metrics")))


if __name__ == "__main__":
    from docagent_rl.cli import main

    main(lambda: print(write(Path(sys.argv[1]))))
