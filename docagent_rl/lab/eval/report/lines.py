"""Lines of a report: one number of several runs, and those that papers print for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from docagent_rl.lab.eval.report.benchmark import Number
from docagent_rl.lab.eval.report.grid import NOTHING, interval_text
from docagent_rl.lab.eval.report.papers import EVERY
from docagent_rl.lab.eval.report.runs import AgainstPaper, RunReport
from docagent_rl.lab.eval.report.statistics import ALL, Row
from docagent_rl.lab.eval.scoring.protocols import JUDGED, protocol_of
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
    """What papers print for each run, with the label of their row."""

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
    for against in papers_of(runs, dataset):
        for target in (beside.target for beside in against.numbers):
            place = printed.setdefault((target.measure, target.row), [])
            place.append((against.row.label, target.value))
    every: list[Number] = [n for report in reports if report is not None for n in getattr(report, part)]
    measures = {(number.measure.name, number.row): number.measure for number in every}
    found = []
    for key, measure in measures.items():
        numbers = tuple(None if report is None else report.number(*key) for report in reports)
        found.append(Line(measure.title, measure, key[1], numbers, printed.get(key, ())))
    return found


def overall(runs: Sequence[RunReport]) -> list[Line]:
    """Return the numbers over all benchmarks of the papers that the runs are held against.

    Questions weigh the same, whichever benchmark they are of. A run that lacks a benchmark has none.
    """
    found, every = [], [papers_of([run], EVERY) for run in runs]
    for datasets in sorted({_datasets(each) for papers in every for each in papers}):
        mine = [[each for each in papers if _datasets(each) == datasets] for papers in every]
        *names, last = (protocol_of(dataset).name for dataset in datasets)
        printed = {a.row.label: beside.target.value for each in mine for a in each for beside in a.numbers}
        title = f"{JUDGED.title}, over {', '.join(names)} and {last}"
        numbers = tuple(_whole(each[0]) if each else None for each in mine)
        found.append(Line(title, JUDGED, ALL, numbers, list(printed.items())))
    return found


def papers_of(runs: Iterable[RunReport], dataset: str) -> list[AgainstPaper]:
    """Return the rows of papers that runs are held against over a benchmark, or over `EVERY`."""
    return [against for run in runs for against in run.papers if against.dataset == dataset]


def _whole(against: AgainstPaper) -> Number | None:
    ours = against.numbers[0].ours
    return None if ours is None else Number(JUDGED, ALL, ours, against.judges)


def _datasets(against: AgainstPaper) -> tuple[str, ...]:
    return tuple(sorted(against.row.datasets()))
