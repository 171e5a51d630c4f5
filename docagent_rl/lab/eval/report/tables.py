"""Tables of a report: a column a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from docagent_rl.lab.eval.report.benchmark import BenchmarkReport
from docagent_rl.lab.eval.report.grid import NOTHING, RULED, Grid, digits, interval_text
from docagent_rl.lab.eval.report.papers import EVERY, Verdict
from docagent_rl.lab.eval.report.runs import AgainstPaper, RunReport
from docagent_rl.lab.eval.report.statistics import ALL, Interval, Row
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import JUDGED, protocol_of
from docagent_rl.lab.eval.scoring.scored import Measure, Unit

OVERALL = "All benchmarks of a paper"


def tables(runs: Sequence[RunReport], dataset: str) -> list[Grid]:
    """Return the tables of one benchmark."""
    having = [(run, report) for run in runs if (report := run.on(dataset)) is not None]
    table = _Tables(dataset, [run for run, _ in having], [report for _, report in having], runs)
    found = [table.answers(), table.use(), *table.breakdowns()]
    if any(report.pass_at for report in table.reports):
        found.append(table.several())
    if any(report.agreements for report in table.reports):
        found.append(table.agreement())
    if any(report.environment for report in table.reports):
        found.append(table.environment())
    return found


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables of one benchmark."""

    dataset: str
    runs: Sequence[RunReport]
    reports: Sequence[BenchmarkReport]
    every: Sequence[RunReport]
    """All runs, whose papers are named."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(run.name for run in self.runs)

    def answers(self) -> Grid:
        rows = []
        for measure in self._measures("answers"):
            numbers = [report.number(measure.name) for report in self.reports]
            by = ", ".join(sorted({by for number in numbers if number for by in number.by})) or NOTHING
            rows.append((measure.title, by, self._questions(measure, ALL), *self._numbers(measure)))
        notes = [_note(run, report) for run, report in zip(self.runs, self.reports, strict=True)]
        notes += [RULED] if any(n.ruled for each in self.reports for n in each.answers) else []
        notes += separating(self.every, self.dataset)
        return self._grid(
            "answers", ("number", "judged by", "questions", *self.names, "paper"), rows, tuple(notes)
        )

    def use(self) -> Grid:
        rows = [(measure.title, *self._numbers(measure)) for measure in self._measures("use")]
        if any(report.seconds["median"] is not None for report in self.reports):
            for title, part in (("median", "median"), ("95th percentile", "p95"), ("longest", "worst")):
                cells = (digits(each.seconds[part], Unit.SECONDS) for each in self.reports)
                rows.append((f"seconds, {title}", *cells, NOTHING))
        notes = tuple(
            f"{run.name}: {report.total_cost:.4f} in all"
            for run, report in zip(self.runs, self.reports, strict=True)
            if report.total_cost is not None
        )
        return self._grid("navigation and use", ("number", *self.names, "paper"), rows, notes)

    def breakdowns(self) -> Iterator[Grid]:
        head = ("by", "line", "questions", *self.names, "paper")
        parts = [number for report in self.reports for number in report.parts]
        for measure in self._measures("parts"):
            lines = sorted({number.row for number in parts if number.measure.name == measure.name})
            rows = [(*row, self._questions(measure, row), *self._numbers(measure, row)) for row in lines]
            yield self._grid(f"{measure.title} by line", head, rows)

    def several(self) -> Grid:
        ruled = [bool((n := each.number(each.headline.name)) and n.ruled) for each in self.reports]
        rows = []
        for k in sorted({k for each in self.reports for k in each.pass_at}):
            cells = [
                interval_text(each.pass_at.get(k), Unit.PERCENT, ruled=mark)
                for each, mark in zip(self.reports, ruled, strict=True)
            ]
            rows.append((f"pass@{k}", *cells))
        note = "one of k trajectories is right; questions with fewer trajectories are left out"
        return self._grid("several trajectories of a question", ("number", *self.names), rows, (note,))

    def agreement(self) -> Grid:
        rows = []
        for run, report in zip(self.runs, self.reports, strict=True):
            for judge, (one, other, found) in report.agreements.items():
                kappa = NOTHING if found.kappa is None else f"{found.kappa:.3f}"
                counts = str(found.count), str(found.left_out)
                rows.append((run.name, judge, one, other, digits(found.raw, Unit.PERCENT), kappa, *counts))
        head = ("run", "asked for", "judge", "second judge", "equal %", "kappa", "trajectories", "left out")
        return self._grid("agreement of two judges", head, rows)

    def environment(self) -> Grid:
        rows = []
        for name in sorted({name for each in self.reports for name in each.environment}):
            means = [each.environment.get(name, {}).get("value") for each in self.reports]
            rows.append((name, *(NOTHING if mean is None else f"{mean:,.4g}" for mean in means)))
        note = "means over the trajectories played; names as environments and trainer have them"
        return self._grid("the system's own numbers", ("number", *self.names), rows, (note,))

    def _grid(
        self,
        title: str,
        head: tuple[str, ...],
        rows: Iterable[tuple[str, ...]],
        notes: tuple[str, ...] = (),
    ) -> Grid:
        return Grid(f"{self.reports[0].title}: {title}", head, tuple(rows), notes)

    def _measures(self, part: str) -> list[Measure]:
        """Return the measures that some run has."""
        numbers = (number for report in self.reports for number in getattr(report, part))
        return list({number.measure.name: number.measure for number in numbers}.values())

    def _numbers(self, measure: Measure, row: Row = ALL) -> tuple[str, ...]:
        """Return a text a run, and one of the papers."""
        numbers = [report.number(measure.name, row) for report in self.reports]
        cells = [
            NOTHING if each is None else interval_text(each.interval, measure.unit, ruled=each.ruled)
            for each in numbers
        ]
        printed = {
            against.row.label: f"{beside.target.value:g}"
            for against in _papers(self.every, self.dataset)
            for beside in against.numbers
            if (beside.target.measure, beside.target.row) == (measure.name, row)
        }
        return (*cells, _listed(printed))

    def _questions(self, measure: Measure, row: Row) -> str:
        numbers = [report.number(measure.name, row) for report in self.reports]
        return _counted(None if number is None else number.interval for number in numbers)


def _note(run: RunReport, report: BenchmarkReport) -> str:
    """Return a note on the trajectories of a run, and on those that count as wrong or not at all."""
    several = "" if report.trajectories == report.questions else f", {report.trajectories:,} trajectories"
    text = f"{run.name}: {run.agent} plays {', '.join(report.systems)}, "
    text += f"{report.questions:,} questions about {report.documents:,} documents{several}"
    if run.expected is not None and run.trajectories < run.expected:
        text += f"; THE RUN IS NOT WHOLE: {run.trajectories:,} of {run.expected:,} trajectories"
    if report.masked:
        text += f"; not played, and so wrong: {_tally(report.masked)}"
    if report.unscored:
        text += f"; {report.unscored:,} questions have no known answer"
    for judge, verdicts in report.verdicts.items():
        text += f"; {judge}: {_tally(verdicts)}"
    unread = {each.measure.expert for each in report.answers if not each.interval.questions}
    for name, count in report.failures.items():
        why = "none could be read" if name in unread else "and so are wrong"
        text += f"; judgements that failed, {why}: {count:,} of {name}"
    return text


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def separating(runs: Sequence[RunReport], dataset: str) -> list[str]:
    """Return the facts that separate the runs' numbers from the papers', a text a run and row."""
    found = []
    for run in runs:
        for against in _papers([run], dataset):
            parts = []
            for verdict in (Verdict.DIFFERENT, Verdict.UNKNOWN, Verdict.SAME):
                facts = [fact for fact in against.facts if fact.verdict is verdict]
                texts = [f"{fact.name} ({fact.ours} here, {fact.paper} there)" for fact in facts]
                parts += [f"{verdict.value}: {'; '.join(texts)}"] if texts else []
            both = f"{run.name} and {against.row.title}, {against.row.label}"
            found.append(f"{both}. {'. '.join(parts)}")
    return found


@dataclass(frozen=True, slots=True)
class Overall:
    """A number over several benchmarks; questions weigh the same, whichever benchmark they are of."""

    title: str
    runs: tuple[AgainstPaper | None, ...]
    """The number of each run; `None` where it lacks one of the benchmarks."""
    printed: Mapping[str, float]

    @property
    def ruled(self) -> bool:
        """True where the embedded rule judge stood in for a model in some run."""
        return any(run is not None and Author.RULE.value in run.judges for run in self.runs)

    @property
    def numbers(self) -> tuple[Interval | None, ...]:
        """The number of every run."""
        return tuple(None if run is None else run.numbers[0].ours for run in self.runs)


def overall(runs: Sequence[RunReport]) -> list[Overall]:
    """Return the numbers over all benchmarks of the papers that the runs are held against."""
    every = [_papers([run], EVERY) for run in runs]
    found = []
    for datasets in sorted({_datasets(each) for papers in every for each in papers}):
        mine = [[each for each in papers if _datasets(each) == datasets] for papers in every]
        names = [protocol_of(dataset).name for dataset in datasets]
        printed = {a.row.label: beside.target.value for each in mine for a in each for beside in a.numbers}
        title = f"{JUDGED.title}, over {', '.join(names[:-1])} and {names[-1]}"
        found.append(Overall(title, tuple(each[0] if each else None for each in mine), printed))
    return found


def overall_table(runs: Sequence[RunReport]) -> list[Grid]:
    """Return the table of `overall`; none where no run has all benchmarks of a paper."""
    rows, found = [], overall(runs)
    for each in found:
        judges = [() if run is None else run.judges for run in each.runs]
        cells = [
            interval_text(number, JUDGED.unit, ruled=Author.RULE.value in by)
            for number, by in zip(each.numbers, judges, strict=True)
        ]
        by = ", ".join(sorted({name for names in judges for name in names}))
        printed = _listed({label: f"{value:g}" for label, value in each.printed.items()})
        rows.append((each.title, by, _counted(each.numbers), *cells, printed))
    head = ("number", "judged by", "questions", *(run.name for run in runs), "paper")
    notes = [*([RULED] if any(each.ruled for each in found) else []), *separating(runs, EVERY)]
    return [Grid(f"{OVERALL}: answers", head, tuple(rows), tuple(notes))] if rows else []


def _papers(runs: Iterable[RunReport], dataset: str) -> list[AgainstPaper]:
    return [against for run in runs for against in run.papers if against.dataset == dataset]


def _datasets(against: AgainstPaper) -> tuple[str, ...]:
    return tuple(sorted(against.row.datasets()))


def _listed(printed: Mapping[str, str]) -> str:
    """Return the papers' numbers, with the label of their rows where there are several."""
    if len(printed) == 1:
        return next(iter(printed.values()))
    several = len({label.partition(", ")[0] for label in printed}) > 1
    texts = (
        f"{value} ({label if several else label.partition(', ')[2]})" for label, value in printed.items()
    )
    return "; ".join(texts) or NOTHING


def _counted(intervals: Iterable[Interval | None]) -> str:
    """Return the counts of questions of several runs, once where they agree."""
    counts = [0 if each is None else each.questions for each in intervals]
    return " / ".join(f"{count:,}" for count in (counts[:1] if len(set(counts)) == 1 else counts))
