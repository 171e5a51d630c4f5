"""Reports: from scored runs to tables with one column per run and one for papers, a page and
JSON.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby
from typing import Any

from docagent_rl.lab.eval.report.benchmark import (
    BenchmarkReport,
    Number,
    ReportSettings,
    answer_measures,
    authors,
)
from docagent_rl.lab.eval.report.grid import (
    NOTHING,
    RULED,
    TextTable,
    interval_text,
    tables_markdown,
)
from docagent_rl.lab.eval.report.paired import Comparison, compare, paired_table
from docagent_rl.lab.eval.report.papers import PaperRow, size_of_test_set
from docagent_rl.lab.eval.report.runs import (
    RunReport,
    ScoredRun,
    overall_title,
    overall_value,
    report_on,
)
from docagent_rl.lab.eval.report.statistics import ALL, Row
from docagent_rl.lab.eval.scoring.protocols import JUDGED, NAVIGATION, USE, protocol_of
from docagent_rl.lab.eval.scoring.roles import SCORING_ROLES, role_prompt
from docagent_rl.lab.eval.scoring.scored import Measure, ScoredTrajectory, Unit

PAGE = "report.md"
DATA = "report.json"
VERSION = 2
_NOTE_ON_PROMPTS = (
    "prompts of this package are in our own words; whether a model was trained like the authors' "
    "is not known"
)
OVERALL = "All benchmarks of a paper"


@dataclass(frozen=True, slots=True)
class ReportLine:
    """One number of several runs."""

    measure: Measure
    row: Row
    numbers: tuple[Number | None, ...]
    """One entry per run; `None` for a run without the number."""
    printed: Sequence[tuple[str, float]]
    """Numbers that papers print for it, with the labels of their rows."""

    def judges(self) -> str:
        """Return the judges or extractors of all runs."""
        names = {by for number in self.numbers if number for by in number.by}
        return ", ".join(sorted(names)) or NOTHING

    def questions(self) -> str:
        """Return the runs' numbers of questions, as one number if they agree."""
        counts = [0 if number is None else number.interval.questions for number in self.numbers]
        if len(set(counts)) == 1:
            counts = counts[:1]
        return " / ".join(f"{count:,}" for count in counts)

    def cells(self) -> tuple[str, ...]:
        """Return one text per run and one for the papers, with labels if there are several."""
        unit = self.measure.unit
        runs = (
            NOTHING if each is None else interval_text(each.interval, unit, ruled=each.ruled)
            for each in self.numbers
        )
        return (*runs, self._printed_text())

    def _printed_text(self) -> str:
        """Return the numbers of papers, with the labels of their rows if there are several."""
        printed = {label: f"{value:g}" for label, value in self.printed}
        if len(printed) <= 1:
            return "; ".join(printed.values()) or NOTHING

        # a label begins with its recipe, which is left out if all rows are of one recipe
        several_recipes = len({label.partition(", ")[0] for label in printed}) > 1
        texts = []
        for label, value in printed.items():
            name = label if several_recipes else label.partition(", ")[2]
            texts.append(f"{value} ({name})" if name else value)
        return "; ".join(texts)


def lines(runs: Sequence[RunReport], dataset: str, part: str) -> list[ReportLine]:
    """Return the numbers that any run has in a part of its report.

    `part` is a field of `BenchmarkReport`: `answers`, `use` or `breakdowns`.
    """
    reports = [run.benchmarks.get(dataset) for run in runs]
    printed: dict[tuple[str, Row], list[tuple[str, float]]] = {}
    for row in papers_of(runs):
        for target in row.numbers:
            if target.dataset == dataset:
                key = (target.measure, target.row)
                printed.setdefault(key, []).append((row.label, target.value))

    measures: dict[tuple[str, Row], Measure] = {}
    for report in reports:
        if report is not None:
            numbers_of_part: Sequence[Number] = getattr(report, part)
            for number in numbers_of_part:
                measures[number.measure.name, number.row] = number.measure

    found = []
    for key, measure in measures.items():
        numbers = tuple(None if report is None else report.number(*key) for report in reports)
        found.append(ReportLine(measure, key[1], numbers, printed.get(key, ())))
    return found


def papers_of(runs: Iterable[RunReport]) -> list[PaperRow]:
    """Return the rows of papers with which runs are compared, without duplicates."""
    return list({row.label: row for run in runs for row in run.papers}.values())


OF_ANSWERS = ": answers"
"""End of the title of a benchmark's first table, that of its own scores."""


def tables(runs: Sequence[RunReport], dataset: str) -> list[TextTable]:
    """Return the tables of one benchmark."""
    runs = [run for run in runs if dataset in run.benchmarks]
    reports = [run.benchmarks[dataset] for run in runs]
    title = protocol_of(dataset).name
    names = tuple(run.name for run in runs)
    use = tuple((line.measure.title, *line.cells()) for line in lines(runs, dataset, "use"))
    found = [
        _answers(title, runs, lines(runs, dataset, "answers"), dataset),
        TextTable(f"{title}: navigation and use", ("number", *names, "paper"), use),
        *_breakdowns(title, names, lines(runs, dataset, "breakdowns")),
    ]
    if any(report.pass_at for report in reports):
        found.append(_several(title, names, reports))
    return found


def overall_table(runs: Sequence[RunReport]) -> list[TextTable]:
    """Return the table of numbers over all benchmarks of the papers with which runs are compared.

    A run that lacks one of the benchmarks has no such number; if no run has all benchmarks of a
    paper, there is no table.
    """
    found = []
    for title in sorted({title for run in runs for title in run.overall}):
        rows = [row for row in papers_of(runs) if overall_title(row) == title]
        printed = [(row.label, value) for row in rows if (value := overall_value(row)) is not None]
        numbers = tuple(run.overall.get(title) for run in runs)
        found.append(ReportLine(replace(JUDGED, title=title), ALL, numbers, printed))
    return [_answers(OVERALL, runs, found)] if found else []


def _answers(
    title: str, runs: Sequence[RunReport], found: Sequence[ReportLine], dataset: str | None = None
) -> TextTable:
    head = ("number", "judged by", "questions", *(run.name for run in runs), "paper")
    rows = [(line.measure.title, line.judges(), line.questions(), *line.cells()) for line in found]
    notes = [] if dataset is None else [_note(run, dataset) for run in runs]
    if any(number and number.ruled for line in found for number in line.numbers):
        notes.append(RULED)
    return TextTable(f"{title}{OF_ANSWERS}", head, tuple(rows), tuple(notes))


def _breakdowns(
    title: str, names: Sequence[str], found: Sequence[ReportLine]
) -> Iterator[TextTable]:
    order = list(dict.fromkeys(line.measure.name for line in found))
    found = sorted(found, key=lambda line: (order.index(line.measure.name), line.row))
    for measure, group in groupby(found, key=lambda line: line.measure.title):
        rows = [(*line.row, line.questions(), *line.cells()) for line in group]
        head = ("by", "line", "questions", *names, "paper")
        yield TextTable(f"{title}: {measure} by line", head, tuple(rows))


def _several(title: str, names: Sequence[str], reports: Sequence[BenchmarkReport]) -> TextTable:
    rows = []
    for k in sorted({k for report in reports for k in report.pass_at}):
        cells = []
        for report in reports:
            number = report.number(report.headline)
            ruled = number is not None and number.ruled
            cells.append(interval_text(report.pass_at.get(k), Unit.PERCENT, ruled=ruled))
        rows.append((f"pass@{k}", *cells))
    note = "one of k trajectories is right; questions with fewer trajectories are left out"
    return TextTable(
        f"{title}: several trajectories of a question", ("number", *names), tuple(rows), (note,)
    )


def _note(run: RunReport, dataset: str) -> str:
    """Return a note about the trajectories of a run, and about those that count as wrong or not at
    all.
    """
    report = run.benchmarks[dataset]
    text = f"{run.name}: {run.agent} plays {', '.join(report.systems)}, {report.questions:,}"
    test_set = size_of_test_set(dataset)
    if test_set not in (None, report.questions):
        text += f" of {test_set:,}"
    text += f" questions about {report.documents:,} documents"
    if report.trajectories != report.questions:
        text += f", {report.trajectories:,} trajectories"
    expected = run.expected_trajectories
    if expected is not None and run.trajectories < expected:
        text += f"; THE RUN IS INCOMPLETE: {run.trajectories:,} of {expected:,} trajectories"
    if report.masked:
        text += f"; not played, so counted as wrong: {_tally(report.masked)}"
    if report.unscored:
        text += f"; the answer to {report.unscored:,} questions is unknown"
    for judge, verdicts in report.verdicts.items():
        text += f"; {judge}: {_tally(verdicts)}"
    for name, count in report.judge_failures.items():
        text += f"; failed judgements, counted as wrong: {count:,} of {name}"
    return text


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def facts_table(runs: Sequence[RunReport]) -> list[TextTable]:
    """Return a table of the facts on which the numbers of runs and papers rest; none without
    papers.
    """
    papers = papers_of(runs)
    if not papers:
        return []
    columns = {run.name: run.facts for run in runs}
    columns |= {f"paper: {row.label}": dict(row.facts) for row in papers}
    names = dict.fromkeys(name for facts in columns.values() for name in facts)
    rows = [(name, *(facts.get(name, NOTHING) for facts in columns.values())) for name in names]
    head = ("", *columns)
    return [TextTable("What the numbers rest on", head, tuple(rows), (_NOTE_ON_PROMPTS,))]


@dataclass(frozen=True, slots=True)
class Report:
    """The tables of a report, and its files by name: `PAGE` and `DATA`."""

    grids: tuple[TextTable, ...]
    files: dict[str, str]


def make_report(
    runs: Sequence[ScoredRun], settings: ReportSettings, *, paired: bool = False
) -> Report:
    """Report on at least one run; `paired` compares the first two question by question."""
    reports = [report_on(run, settings) for run in runs]
    datasets = sorted({dataset for report in reports for dataset in report.benchmarks})
    grids = overall_table(reports)
    for dataset in datasets:
        grids += tables(reports, dataset)
    comparisons: dict[str, Comparison] = {}
    if paired:
        for dataset in datasets:
            comparisons[dataset], table = _paired(runs[:2], reports, dataset, settings)
            grids.append(table)
    grids += facts_table(reports)
    explanation = (
        f"Brackets are 95 % intervals over {settings.draws:,} resamples of documents (seed "
        f"{settings.seed}). All trajectories of a question together weigh as much as one; "
        "trajectories that were not played are wrong. docs/report.md explains every number."
    )
    data = {
        "docagent_rl_report": VERSION,
        "settings": settings,
        "judge_prompts": {role.value: role_prompt(role).digest for role in SCORING_ROLES},
        "runs": reports,
        "paired": comparisons,
    }
    files = {
        PAGE: tables_markdown(grids, [explanation]),
        DATA: json.dumps(data, default=_data, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    return Report(tuple(grids), files)


def _paired(
    runs: Sequence[ScoredRun], reports: Sequence[RunReport], dataset: str, settings: ReportSettings
) -> tuple[Comparison, TextTable]:
    """Compare two runs on a benchmark by its headline and by all other numbers that both have."""
    ours, theirs = ([each for each in run.trajectories if each.dataset == dataset] for run in runs)
    headline, *others = answer_measures(dataset, [*ours, *theirs])
    in_both = _known_values(ours) & _known_values(theirs)
    shared = [measure for measure in (*others, *NAVIGATION, *USE) if measure.value in in_both]
    ruled: set[str] = set()
    for report in reports:
        if dataset in report.benchmarks:
            numbers = report.benchmarks[dataset].answers
            ruled |= {number.measure.name for number in numbers if number.ruled}
    found = compare(
        [each for each in ours if each.scored],
        [each for each in theirs if each.scored],
        [headline, *shared],
        ruled,
        draws=settings.draws,
        seed=settings.seed,
    )
    judges = [", ".join(authors(headline, side)) for side in (ours, theirs)]
    return found, paired_table(found, runs[0].name, runs[1].name, protocol_of(dataset).name, judges)


def _known_values(trajectories: Iterable[ScoredTrajectory]) -> set[str]:
    """Return the names of the values that are known of at least one trajectory."""
    names: set[str] = set()
    for each in trajectories:
        names |= {name for name, value in each.values.items() if value is not None}
    return names


def _data(value: Any) -> Any:
    """Return an object as JSON types; fractions stay as they are."""
    if hasattr(value, "data"):
        return value.data()
    return {each.name: getattr(value, each.name) for each in fields(value)}
