"""Tables of a report as plain texts, for every way to show them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from docagent_rl.lab.eval.report.bootstrap import Interval
from docagent_rl.lab.eval.report.build import BenchmarkReport, Number, RunReport
from docagent_rl.lab.eval.report.differences import Verdict
from docagent_rl.lab.eval.report.papers import AgainstPaper
from docagent_rl.lab.eval.report.sums import ALL, Row
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.measures import Measure, Unit

MARK = "†"
"""Beside every number that the embedded rule judge stands in for."""
RULED = (
    f"{MARK} judged or extracted by the {Author.RULE.value}, no model: not to be compared with a paper's "
    "number (docs/rule_judge.md)"
)
NOTHING = "-"


@dataclass(frozen=True, slots=True)
class Grid:
    """A table.

    Args:
        title: of it.
        head: of its columns.
        rows: as many texts each.
        notes: lines under it.
    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunView:
    """A run and what it is held against."""

    report: RunReport
    papers: tuple[AgainstPaper, ...]

    def on(self, dataset: str) -> BenchmarkReport | None:
        """Its report on a benchmark."""
        return next((each for each in self.report.benchmarks if each.dataset == dataset), None)


def grids(views: Sequence[RunView], dataset: str) -> list[Grid]:
    """The tables of one benchmark, a column a run."""
    there = [(view, report) for view in views if (report := view.on(dataset)) is not None]
    reports = [report for _, report in there]
    names = tuple(view.report.name for view, _ in there)
    title = reports[0].title
    answers = _numbers([report.answers for report in reports], reports, views, dataset)
    found = [
        Grid(
            f"{title}: answers",
            ("number", "judged by", "questions", *names, "paper"),
            tuple(
                (measure.title, _by(reports, measure), _questions(reports, measure, ALL), *cells)
                for measure, cells in answers
            ),
            (*_notes(there), *separating(views, dataset)),
        ),
        Grid(
            f"{title}: navigation and use",
            ("number", *names, "paper"),
            (
                *(
                    (measure.title, *cells)
                    for measure, cells in _numbers([each.use for each in reports], reports, views, dataset)
                ),
                *_latency(reports),
            ),
            tuple(
                f"{view.report.name}: {report.total_cost:.4f} in all"
                for view, report in there
                if report.total_cost is not None
            ),
        ),
    ]
    found += _breakdowns(reports, names, views, dataset, title)
    if any(report.pass_at for report in reports):
        found.append(_several(reports, names, title))
    if any(report.agreements for report in reports):
        found.append(_agreement(there, title))
    if any(report.environment for report in reports):
        found.append(_environment(reports, names, title))
    return found


def shown(interval: Interval | None, unit: Unit, *, ruled: bool = False, sign: bool = False) -> str:
    """A number with its interval."""
    if interval is None or interval.value is None:
        return NOTHING
    text = digits(interval.value, unit, sign) + (MARK if ruled else "")
    if interval.low is None or interval.high is None:
        return text
    return f"{text} [{digits(interval.low, unit, sign)}, {digits(interval.high, unit, sign)}]"


def digits(value: float, unit: Unit, sign: bool = False) -> str:
    """A number as its unit is shown."""
    plus = "+" if sign else ""
    match unit:
        case Unit.PERCENT:
            return f"{100 * value:{plus}.1f}"
        case Unit.SECONDS:
            return f"{value:{plus},.1f}"
        case Unit.MONEY:
            return f"{value:{plus},.5f}"
        case Unit.NUMBER:
            return f"{value:{plus},.2f}"


def p_text(value: float | None) -> str:
    """A p-value, of which none is 0."""
    return NOTHING if value is None else f"{value:.4f}" if value >= 0.001 else "< 0.001"


def _numbers(
    lists: Sequence[Sequence[Number]],
    reports: Sequence[BenchmarkReport],
    views: Sequence[RunView],
    dataset: str,
) -> list[tuple[Measure, tuple[str, ...]]]:
    """Measures that some run has, with a text a run and one of the papers."""
    measures = {number.measure.name: number.measure for numbers in lists for number in numbers}
    return [
        (measure, (*(_of(report, measure, ALL) for report in reports), _paper(views, dataset, measure, ALL)))
        for measure in measures.values()
    ]


def _latency(reports: Sequence[BenchmarkReport]) -> list[tuple[str, ...]]:
    """Where a session's time lies beside its mean."""
    if all(each.seconds.median is None for each in reports):
        return []
    rows = []
    for title, part in (("median", "median"), ("95th percentile", "p95"), ("longest", "worst")):
        values = [getattr(each.seconds, part) for each in reports]
        cells = (NOTHING if value is None else digits(value, Unit.SECONDS) for value in values)
        rows.append((f"seconds, {title}", *cells, NOTHING))
    return rows


def _of(report: BenchmarkReport, measure: Measure, row: Row) -> str:
    number = report.number(measure.name, row)
    return NOTHING if number is None else shown(number.interval, measure.unit, ruled=number.ruled)


def _questions(reports: Sequence[BenchmarkReport], measure: Measure, row: Row) -> str:
    numbers = [report.number(measure.name, row) for report in reports]
    return counted(None if number is None else number.interval for number in numbers)


def counted(intervals: Iterable[Interval | None]) -> str:
    """How many questions numbers of several runs are over: one count, or that of each where they differ."""
    counts = [0 if each is None else each.questions for each in intervals]
    return " / ".join(f"{count:,}" for count in (counts[:1] if len(set(counts)) == 1 else counts))


def _by(reports: Sequence[BenchmarkReport], measure: Measure) -> str:
    found = {by for each in reports if (number := each.number(measure.name)) for by in number.by}
    return ", ".join(sorted(found)) or NOTHING


def _paper(views: Sequence[RunView], dataset: str, measure: Measure, row: Row) -> str:
    found: dict[str, str] = {}
    for view in views:
        for against in view.papers:
            for beside in against.numbers if against.dataset == dataset else ():
                if (beside.target.measure, beside.target.row) == (measure.name, row):
                    found[label_of(against)] = f"{beside.target.value:g}"
    return listed(found)


def listed(found: Mapping[str, str]) -> str:
    """The papers' numbers, by the label of their rows."""
    if len(found) == 1:
        return next(iter(found.values()))
    recipes = {label.partition(", ")[0] for label in found}
    short = {label: label.partition(", ")[2] if len(recipes) == 1 else label for label in found}
    return "; ".join(f"{value} ({short[label]})" for label, value in found.items()) or NOTHING


def label_of(against: AgainstPaper) -> str:
    """A row of a paper in a word or two."""
    retriever = against.row.facts.get("retriever")
    return f"{against.row.recipe}{', ' + retriever[0] if retriever else ''}"


def _notes(there: Sequence[tuple[RunView, BenchmarkReport]]) -> list[str]:
    found = []
    for view, report in there:
        several = "" if report.sessions == report.questions else f", {report.sessions:,} sessions"
        text = f"{view.report.name}: {view.report.agent} plays {', '.join(report.systems)}, "
        text += f"{report.questions:,} questions about {report.documents:,} documents{several}"
        if view.report.expected is not None and view.report.sessions < view.report.expected:
            text += f"; THE RUN IS NOT WHOLE: {view.report.sessions:,} of {view.report.expected:,} sessions"
        if report.masked:
            reasons = ", ".join(f"{count:,} {reason}" for reason, count in report.masked.items())
            text += f"; not played, and so wrong: {reasons}"
        if report.unscored:
            text += f"; {report.unscored:,} questions have no known answer"
        for judge, verdicts in report.verdicts.items():
            text += f"; {judge}: {', '.join(f'{count:,} {value}' for value, count in verdicts.items())}"
        unread = {each.measure.expert for each in report.answers if not each.interval.questions}
        for name, count in report.failures.items():
            why = "none could be read" if name in unread else "and so are wrong"
            text += f"; judgements that failed, {why}: {count:,} of {name}"
        found.append(text)
    if any(number.ruled for _, report in there for number in report.answers):
        found.append(RULED)
    return found


def separating(views: Sequence[RunView], dataset: str) -> list[str]:
    """What separates the runs' numbers from the papers'."""
    found = []
    for view in views:
        for against in view.papers:
            if against.dataset != dataset:
                continue
            parts = []
            for verdict in (Verdict.DIFFERENT, Verdict.UNKNOWN, Verdict.SAME):
                facts = [fact for fact in against.facts if fact.verdict is verdict]
                told = [f"{fact.name} ({fact.ours} here, {fact.paper} there)" for fact in facts]
                parts += [f"{verdict.value}: {'; '.join(told)}"] if told else []
            both = f"{view.report.name} and {against.row.title}, {label_of(against)}"
            found.append(f"{both}. {'. '.join(parts)}")
    return found


def _breakdowns(
    reports: Sequence[BenchmarkReport],
    names: tuple[str, ...],
    views: Sequence[RunView],
    dataset: str,
    title: str,
) -> list[Grid]:
    measures = {number.measure.name: number.measure for each in reports for number in each.parts}
    found = []
    for measure in measures.values():
        lines = sorted({n.row for each in reports for n in each.parts if n.measure.name == measure.name})
        rows = []
        for row in lines:
            cells = [_of(each, measure, row) for each in reports]
            questions = _questions(reports, measure, row)
            rows.append((*row, questions, *cells, _paper(views, dataset, measure, row)))
        head = ("by", "line", "questions", *names, "paper")
        found.append(Grid(f"{title}: {measure.title} by line", head, tuple(rows)))
    return found


def _several(reports: Sequence[BenchmarkReport], names: tuple[str, ...], title: str) -> Grid:
    rows = [
        (f"pass@{k}", *(shown(each.pass_at.get(k), Unit.PERCENT, ruled=_rules(each)) for each in reports))
        for k in sorted({k for each in reports for k in each.pass_at})
    ]
    note = "one of k sessions is right; questions with fewer sessions are left out"
    return Grid(f"{title}: several sessions of a question", ("number", *names), tuple(rows), (note,))


def _environment(reports: Sequence[BenchmarkReport], names: tuple[str, ...], title: str) -> Grid:
    rows = []
    for name in sorted({name for each in reports for name in each.environment}):
        means = [each.environment.get(name) for each in reports]
        cells = [NOTHING if mean is None or mean.value is None else f"{mean.value:,.4g}" for mean in means]
        rows.append((name, *cells))
    note = "means over the sessions played; names as environments and trainer have them"
    return Grid(f"{title}: the system's own numbers", ("number", *names), tuple(rows), (note,))


def _rules(report: BenchmarkReport) -> bool:
    """Whether the embedded rule judge stands behind the headline."""
    number = report.number(report.headline.name)
    return number is not None and number.ruled


def _agreement(there: Sequence[tuple[RunView, BenchmarkReport]], title: str) -> Grid:
    rows = []
    for view, report in there:
        for judge, (one, other, told) in report.agreements.items():
            raw = NOTHING if told.raw is None else f"{100 * told.raw:.1f}"
            kappa = NOTHING if told.kappa is None else f"{told.kappa:.3f}"
            rows.append(
                (view.report.name, judge, one, other, raw, kappa, str(told.count), str(told.left_out))
            )
    head = ("run", "asked for", "judge", "second judge", "equal %", "kappa", "sessions", "left out")
    return Grid(f"{title}: agreement of two judges", head, tuple(rows))
