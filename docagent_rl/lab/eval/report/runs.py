"""Reports on whole runs: their benchmarks, and their numbers beside those of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docagent_rl.lab.eval.report.benchmark import (
    BenchmarkReport,
    ReportSettings,
    answer_measures,
    authors,
    benchmark,
)
from docagent_rl.lab.eval.report.papers import EVERY, PaperRow, ProtocolFact, Target, differences, rows_for
from docagent_rl.lab.eval.report.statistics import ALL, Cell, Interval, intervals, sums_of
from docagent_rl.lab.eval.run_facts import RunFacts, expected_trajectories
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.measures import Unit
from docagent_rl.lab.eval.scoring.protocols import JUDGED
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run that is reported on.

    Args:
        name: short, one of a kind.
        trajectories: scored.
        manifest: its `run.json`.
    """

    name: str
    trajectories: Sequence[ScoredTrajectory]
    manifest: Mapping[str, Any]


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
    ours: Interval | None = None
    gap: float | None = None
    inside: bool | None = None


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


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run over all of its benchmarks.

    Args:
        name: of the run.
        agent: who played.
        facts: how.
        benchmarks: in alphabetical order.
        papers: the rows of papers that it is held against.
        trajectories: that it has.
        expected: that it has when it is whole; `None` where its description does not say.
    """

    name: str
    agent: str
    facts: RunFacts
    benchmarks: tuple[BenchmarkReport, ...]
    papers: tuple[AgainstPaper, ...]
    trajectories: int
    expected: int | None

    def on(self, dataset: str) -> BenchmarkReport | None:
        """Return its report on a benchmark."""
        return next((each for each in self.benchmarks if each.dataset == dataset), None)


def report_on(run: ScoredRun, settings: ReportSettings) -> RunReport:
    """Report on one run."""
    by_dataset: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in run.trajectories:
        by_dataset.setdefault(trajectory.dataset, []).append(trajectory)
    benchmarks = tuple(benchmark(name, by_dataset[name], settings) for name in sorted(by_dataset))
    facts = RunFacts.of(run.manifest)
    return RunReport(
        name=run.name,
        agent=run.trajectories[0].agent if run.trajectories else "unknown",
        facts=facts,
        benchmarks=benchmarks,
        papers=tuple(_against_papers(benchmarks, facts, run.trajectories, settings)),
        trajectories=len(run.trajectories),
        expected=expected_trajectories(run.manifest),
    )


def without_unread(trajectories: Sequence[ScoredTrajectory]) -> list[ScoredTrajectory]:
    """Return trajectories without values that rest on an expert of whom no reply to a benchmark could be
    read.

    One that is read sometimes is wrong where it failed; one that never is says nothing about the answers.
    """
    asked: dict[tuple[str, str], list[bool]] = {}
    for each in trajectories:
        for name, opinion in each.experts.items():
            if opinion["by"] != Author.NOBODY.value:
                asked.setdefault((each.dataset, name), []).append(opinion["failed"])
    unread = {key for key, failed in asked.items() if all(failed)}
    resting = {
        dataset: {
            measure.value
            for measure in answer_measures(
                dataset, [each for each in trajectories if each.dataset == dataset]
            )
            if measure.expert is not None and (dataset, measure.expert.value) in unread
        }
        for dataset, _ in unread
    }
    return [
        replace(each, values={**each.values, **dict.fromkeys(resting.get(each.dataset, ()))})
        for each in trajectories
    ]


def _against_papers(
    benchmarks: Sequence[BenchmarkReport],
    facts: RunFacts,
    trajectories: Sequence[ScoredTrajectory],
    settings: ReportSettings,
) -> list[AgainstPaper]:
    """Hold a run against the rows of its recipe, or of its systems where it names no recipe."""
    found: list[AgainstPaper] = []
    systems = sorted({name for each in benchmarks for name in each.systems})
    rows = {id(row): row for system in systems for row in rows_for(facts.recipe, system)}
    for row in rows.values():
        played = [each for each in benchmarks if row.system in each.systems]
        for each in played:
            numbers = [_beside(each, target) for target in row.numbers if target.dataset == each.dataset]
            if numbers:
                judges = _judges(each, {beside.target.measure for beside in numbers})
                protocol = differences(facts, row, each.dataset, each.questions, judges)
                found.append(AgainstPaper(row, each.dataset, tuple(numbers), tuple(protocol), judges))
        if row.datasets() <= {each.dataset for each in played}:
            found += _overall(facts, row, trajectories, settings)
    return found


def _beside(report: BenchmarkReport, target: Target) -> Beside:
    number = report.number(target.measure, target.row)
    if number is None:
        return Beside(target)
    return _held(target, number.interval, 100.0 if number.measure.unit is Unit.PERCENT else 1.0)


def _held(target: Target, ours: Interval, scale: float) -> Beside:
    if ours.value is None:
        return Beside(target)
    printed, inside = target.value / scale, None
    if ours.low is not None and ours.high is not None:
        inside = ours.low <= printed <= ours.high
    return Beside(target, ours, ours.value * scale - target.value, inside)


def _judges(report: BenchmarkReport, measures: set[str]) -> tuple[str, ...]:
    return tuple(sorted({by for each in report.answers if each.measure.name in measures for by in each.by}))


def _overall(
    facts: RunFacts, row: PaperRow, trajectories: Sequence[ScoredTrajectory], settings: ReportSettings
) -> list[AgainstPaper]:
    """Return the number over all questions of all benchmarks of a row."""
    targets = [target for target in row.numbers if (target.dataset, target.row) == (EVERY, ALL)]
    if not targets:
        return []
    chosen = [each for each in trajectories if each.dataset in row.datasets()]
    (ours,) = intervals(sums_of(chosen, [Cell(JUDGED)]), draws=settings.draws, seed=settings.seed)
    judges = authors(JUDGED, chosen)
    protocol = differences(facts, row, EVERY, ours.questions, judges)
    numbers = tuple(_held(target, ours, 100.0) for target in targets)
    return [AgainstPaper(row, EVERY, numbers, tuple(protocol), judges)]
