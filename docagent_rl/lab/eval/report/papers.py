"""A run's numbers beside those of the papers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docagent_rl.lab.eval.report.bootstrap import Interval, intervals
from docagent_rl.lab.eval.report.build import BenchmarkReport, ReportSettings, RunReport, authors
from docagent_rl.lab.eval.report.differences import ProtocolFact, differences
from docagent_rl.lab.eval.report.sums import ALL, Cell, sums_of
from docagent_rl.lab.eval.report.targets import EVERY, PaperRow, Target, rows_for
from docagent_rl.lab.eval.scoring.protocols import JUDGED
from docagent_rl.lab.eval.scoring.scored import ScoredSession


@dataclass(frozen=True, slots=True)
class Beside:
    """A printed number and the run's.

    Args:
        target: printed.
        ours: `None` where the run has no such number.
        gap: ours less the printed one, in its unit; `None` without ours.
        inside: whether the printed number lies in our interval; `None` without one. The paper's own spread is
            not known, so this is no test.
    """

    target: Target
    ours: Interval | None
    gap: float | None
    inside: bool | None


@dataclass(frozen=True, slots=True)
class AgainstPaper:
    """A run over one benchmark beside one row of a paper.

    Args:
        row: of the paper.
        dataset: the benchmark, or `EVERY`.
        numbers: that it prints for it.
        facts: what separates the two.
        judges: who judged or extracted the run's numbers, where somebody had to.
    """

    row: PaperRow
    dataset: str
    numbers: tuple[Beside, ...]
    facts: tuple[ProtocolFact, ...]
    judges: tuple[str, ...] = ()


def against_papers(
    run: RunReport, sessions: Sequence[ScoredSession], settings: ReportSettings
) -> list[AgainstPaper]:
    """Hold a run against the rows of its recipe, or of its systems where it names no recipe."""
    found: list[AgainstPaper] = []
    systems = sorted({name for each in run.benchmarks for name in each.systems})
    rows = {id(row): row for system in systems for row in rows_for(run.facts.recipe, system)}
    for row in rows.values():
        for each in run.benchmarks:
            numbers = [_beside(each, target) for target in row.numbers if target.dataset == each.dataset]
            if numbers and row.system in each.systems:
                judges = _judges(each, row)
                facts = differences(run.facts, row, each.dataset, each.questions, judges)
                found.append(AgainstPaper(row, each.dataset, tuple(numbers), tuple(facts), judges))
        found += _whole(run, row, sessions, settings)
    return found


def _beside(report: BenchmarkReport, target: Target) -> Beside:
    number = report.number(target.measure, target.row)
    if number is None:
        return Beside(target, None, None, None)
    return _held(target, number.interval, 100.0 if number.measure.unit == "%" else 1.0)


def _held(target: Target, ours: Interval, scale: float) -> Beside:
    if ours.value is None:
        return Beside(target, None, None, None)
    printed, inside = target.value / scale, None
    if ours.low is not None and ours.high is not None:
        inside = ours.low <= printed <= ours.high
    return Beside(target, ours, ours.value * scale - target.value, inside)


def _judges(report: BenchmarkReport, row: PaperRow) -> tuple[str, ...]:
    measures = {target.measure for target in row.numbers if target.dataset == report.dataset}
    return tuple(sorted({by for each in report.answers if each.measure.name in measures for by in each.by}))


def _whole(
    run: RunReport, row: PaperRow, sessions: Sequence[ScoredSession], settings: ReportSettings
) -> list[AgainstPaper]:
    """The number over all questions of all benchmarks of a row, where the row's system played all of them."""
    targets = [target for target in row.numbers if (target.dataset, target.row) == (EVERY, ALL)]
    played = {each.dataset for each in run.benchmarks if row.system in each.systems}
    if not targets or not row.datasets() <= played:
        return []
    there = [each for each in sessions if each.dataset in row.datasets()]
    ours = intervals(sums_of(there, [Cell(JUDGED)]), draws=settings.draws, seed=settings.seed)[0]
    judges = authors(JUDGED, there)
    facts = differences(run.facts, row, EVERY, ours.questions, judges)
    numbers = tuple(_held(target, ours, 100.0) for target in targets)
    return [AgainstPaper(row, EVERY, numbers, tuple(facts), judges)]
