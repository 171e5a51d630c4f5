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
from docagent_rl.lab.eval.scoring.protocols import JUDGED
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory, Unit


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A scored run: its short name, unique in a report, its trajectories and its `run.json`."""

    name: str
    trajectories: Sequence[ScoredTrajectory]
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Beside:
    """A printed number and the run's, where it has such a number."""

    target: Target
    ours: Interval | None = None
    gap: float | None = None
    """Ours less the printed one, in its unit."""
    inside: bool | None = None
    """The printed number lies in our interval. The paper's own spread is not known, so this is no test."""


@dataclass(frozen=True, slots=True)
class AgainstPaper:
    """A run over one benchmark beside one row of a paper."""

    row: PaperRow
    dataset: str
    """The benchmark, or `EVERY`."""
    numbers: tuple[Beside, ...]
    facts: tuple[ProtocolFact, ...]
    judges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run over all of its benchmarks, in alphabetical order."""

    name: str
    agent: str
    facts: RunFacts
    benchmarks: tuple[BenchmarkReport, ...]
    papers: tuple[AgainstPaper, ...]
    trajectories: int
    expected: int | None
    """Trajectories of the whole run; `None` where its description does not say."""

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
    """Return trajectories without the values of experts none of whose replies to a benchmark could be read.

    An expert that is read sometimes is wrong where it failed; one that never is says nothing about answers.
    """
    asked: dict[tuple[str, str], list[bool]] = {}
    for each in trajectories:
        for name, opinion in each.experts.items():
            if opinion["by"] != Author.NOBODY.value:
                asked.setdefault((each.dataset, name), []).append(opinion["failed"])
    unread = {key for key, failed in asked.items() if all(failed)}
    resting: dict[str, list[str]] = {}
    for dataset, expert in unread:
        measures = answer_measures(dataset, [each for each in trajectories if each.dataset == dataset])
        names = [each.value for each in measures if each.expert is not None and each.expert.value == expert]
        resting.setdefault(dataset, []).extend(names)
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
            numbers = []
            for target in (target for target in row.numbers if target.dataset == each.dataset):
                number = each.number(target.measure, target.row)
                scale = 1.0 if number is not None and number.measure.unit is not Unit.PERCENT else 100.0
                numbers.append(_beside(target, None if number is None else number.interval, scale))
            if numbers:
                names = {beside.target.measure for beside in numbers}
                judges = tuple(sorted({by for n in each.answers if n.measure.name in names for by in n.by}))
                protocol = differences(facts, row, each.dataset, each.questions, judges)
                found.append(AgainstPaper(row, each.dataset, tuple(numbers), tuple(protocol), judges))
        targets = [target for target in row.numbers if (target.dataset, target.row) == (EVERY, ALL)]
        if targets and row.datasets() <= {each.dataset for each in played}:
            # over all questions of all benchmarks of the row
            chosen = [each for each in trajectories if each.dataset in row.datasets()]
            (ours,) = intervals(sums_of(chosen, [Cell(JUDGED)]), draws=settings.draws, seed=settings.seed)
            judges = authors(JUDGED, chosen)
            protocol = differences(facts, row, EVERY, ours.questions, judges)
            beside = tuple(_beside(target, ours) for target in targets)
            found.append(AgainstPaper(row, EVERY, beside, tuple(protocol), judges))
    return found


def _beside(target: Target, ours: Interval | None, scale: float = 100.0) -> Beside:
    if ours is None or ours.value is None:
        return Beside(target)
    printed, inside = target.value / scale, None
    if ours.low is not None and ours.high is not None:
        inside = ours.low <= printed <= ours.high
    return Beside(target, ours, ours.value * scale - target.value, inside)
