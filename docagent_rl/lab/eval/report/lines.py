"""Lines of a report: one number of several runs, and those that papers print for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docagent_rl.lab.eval.report.benchmark import Number
from docagent_rl.lab.eval.report.grid import NOTHING, interval_text
from docagent_rl.lab.eval.report.papers import PaperRow
from docagent_rl.lab.eval.report.runs import RunReport, overall_title, overall_value
from docagent_rl.lab.eval.report.statistics import ALL, Row
from docagent_rl.lab.eval.scoring.protocols import JUDGED
from docagent_rl.lab.eval.scoring.scored import Measure

OVERALL = "All benchmarks of a paper"


@dataclass(frozen=True, slots=True)
class Line:
    """One number of several runs."""

    title: str
    measure: Measure
    row: Row
    numbers: tuple[Number | None, ...]
    """A run each; `None` of a run without it."""
    printed: Sequence[tuple[str, float]]
    """Numbers that papers print for each run, with the label of their row."""

    @property
    def ruled(self) -> bool:
        """True where the embedded rule judge stood in for a model in some run."""
        return any(number is not None and number.ruled for number in self.numbers)

    def judges(self) -> str:
        """Return the judges or extractors of all runs."""
        return ", ".join(sorted({by for number in self.numbers if number for by in number.by})) or NOTHING

    def questions(self) -> str:
        """Return the counts of questions of all runs, once where they agree."""
        counts = [0 if number is None else number.interval.questions for number in self.numbers]
        return " / ".join(f"{count:,}" for count in (counts[:1] if len(set(counts)) == 1 else counts))

    def cells(self) -> tuple[str, ...]:
        """Return a text a run, and one of the papers, with labels where there are several."""
        runs = (
            NOTHING if each is None else interval_text(each.interval, self.measure.unit, ruled=each.ruled)
            for each in self.numbers
        )
        printed = {label: f"{value:g}" for label, value in self.printed}
        several = len({label.partition(", ")[0] for label in printed}) > 1
        names = {label: label if several else label.partition(", ")[2] for label in printed}
        beside = [f"{value} ({names[label]})" for label, value in printed.items()]
        return (*runs, "; ".join(beside if len(printed) > 1 else printed.values()) or NOTHING)


def lines(runs: Sequence[RunReport], dataset: str, part: str) -> list[Line]:
    """Return the numbers that some run has, of `answers`, `use` or `breakdowns` of its report."""
    reports = [run.benchmarks.get(dataset) for run in runs]
    printed: dict[tuple[str, Row], list[tuple[str, float]]] = {}
    for row in papers_of(runs):
        for target in (each for each in row.numbers if each.dataset == dataset):
            printed.setdefault((target.measure, target.row), []).append((row.label, target.value))
    every: list[Number] = [n for report in reports if report is not None for n in getattr(report, part)]
    measures = {(number.measure.name, number.row): number.measure for number in every}
    found = []
    for key, measure in measures.items():
        numbers = tuple(None if report is None else report.number(*key) for report in reports)
        found.append(Line(measure.title, measure, key[1], numbers, printed.get(key, ())))
    return found


def overall(runs: Sequence[RunReport]) -> list[Line]:
    """Return the numbers over all benchmarks of the papers that the runs are held against.

    A run that lacks a benchmark has none.
    """
    found = []
    for title in sorted({title for run in runs for title in run.overall}):
        rows = [row for row in papers_of(runs) if overall_title(row) == title]
        printed = [(row.label, value) for row in rows if (value := overall_value(row)) is not None]
        numbers = tuple(run.overall.get(title) for run in runs)
        found.append(Line(title, JUDGED, ALL, numbers, printed))
    return found


def papers_of(runs: Iterable[RunReport]) -> list[PaperRow]:
    """Return the rows of papers that runs are held against, each once."""
    return list({row.label: row for run in runs for row in run.papers}.values())
