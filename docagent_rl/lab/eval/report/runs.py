"""Reports on whole runs: their benchmarks, and their numbers beside those of the papers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docagent_rl.lab.eval.report.benchmark import (
    BenchmarkReport,
    Number,
    ReportSettings,
    answer_measures,
    authors,
    benchmark,
)
from docagent_rl.lab.eval.report.papers import EVERY, PaperRow, ProtocolFact, Target, differences, rows_for
from docagent_rl.lab.eval.report.statistics import ALL, Cell, Interval, intervals, row_data, sums_of
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

    def data(self) -> dict[str, Any]:
        """Return it as the JSON file has it."""
        named = {"measure": self.target.measure, **row_data(self.target.row), "paper": self.target.value}
        return {**named, "ours": self.ours, "gap": self.gap, "paper_inside_interval": self.inside}


@dataclass(frozen=True, slots=True)
class AgainstPaper:
    """A run over one benchmark beside one row of a paper."""

    row: PaperRow
    dataset: str
    """The benchmark, or `EVERY`."""
    numbers: tuple[Beside, ...]
    protocol: tuple[ProtocolFact, ...]
    judges: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """Return it as the JSON file has it."""
        named = {"recipe": self.row.recipe, "paper": self.row.title, "dataset": self.dataset}
        return {**named, "by": self.judges, "numbers": self.numbers, "protocol": self.protocol}


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run over all of its benchmarks, in alphabetical order."""

    name: str
    agent: str
    trajectories: int
    expected_trajectories: int | None
    """Trajectories of the whole run; `None` where its description does not say."""
    facts: RunFacts
    benchmarks: dict[str, BenchmarkReport]
    papers: tuple[AgainstPaper, ...]


def report_on(run: ScoredRun, settings: ReportSettings) -> RunReport:
    """Report on one run."""
    by_dataset: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in run.trajectories:
        by_dataset.setdefault(trajectory.dataset, []).append(trajectory)
    benchmarks = {name: benchmark(name, by_dataset[name], settings) for name in sorted(by_dataset)}
    facts = RunFacts.of(run.manifest)
    return RunReport(
        name=run.name,
        agent=run.trajectories[0].agent if run.trajectories else "unknown",
        trajectories=len(run.trajectories),
        expected_trajectories=expected_trajectories(run.manifest),
        facts=facts,
        benchmarks=benchmarks,
        papers=tuple(_against_papers(benchmarks, facts, run.trajectories, settings)),
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
    benchmarks: Mapping[str, BenchmarkReport],
    facts: RunFacts,
    trajectories: Sequence[ScoredTrajectory],
    settings: ReportSettings,
) -> Iterator[AgainstPaper]:
    """Hold a run against the rows of its recipe, or of its systems where it names no recipe."""
    systems = sorted({name for each in benchmarks.values() for name in each.systems})
    for row in {id(row): row for system in systems for row in rows_for(facts.recipe, system)}.values():
        played = {name: each for name, each in benchmarks.items() if row.system in each.systems}
        for dataset, each in played.items():
            targets = [target for target in row.numbers if target.dataset == dataset]
            if targets:
                numbers = tuple(_beside(t, each.number(t.measure, t.row)) for t in targets)
                names = {target.measure for target in targets}
                judges = tuple(sorted({by for n in each.answers if n.measure.name in names for by in n.by}))
                protocol = differences(facts, row, dataset, each.questions, judges)
                yield AgainstPaper(row, dataset, numbers, tuple(protocol), judges)
        targets = [target for target in row.numbers if (target.dataset, target.row) == (EVERY, ALL)]
        if targets and row.datasets() <= played.keys():
            # over all questions of all benchmarks of the row
            chosen = [each for each in trajectories if each.dataset in row.datasets()]
            (ours,) = intervals(sums_of(chosen, [Cell(JUDGED)]), draws=settings.draws, seed=settings.seed)
            whole = Number(JUDGED, ALL, ours, authors(JUDGED, chosen))
            protocol = differences(facts, row, EVERY, ours.questions, whole.by)
            numbers = tuple(_beside(target, whole) for target in targets)
            yield AgainstPaper(row, EVERY, numbers, tuple(protocol), whole.by)


def _beside(target: Target, number: Number | None) -> Beside:
    ours = None if number is None else number.interval
    if number is None or ours is None or ours.value is None:
        return Beside(target)
    scale = 100.0 if number.measure.unit is Unit.PERCENT else 1.0
    printed, inside = target.value / scale, None
    if ours.low is not None and ours.high is not None:
        inside = ours.low <= printed <= ours.high
    return Beside(target, ours, ours.value * scale - target.value, inside)
