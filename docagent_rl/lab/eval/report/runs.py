"""Reports on whole runs: their benchmarks, and the papers that they are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.lab.eval.report.benchmark import BenchmarkReport, Number, ReportSettings, authors, benchmark
from docagent_rl.lab.eval.report.papers import EVERY, PaperRow, rows_for
from docagent_rl.lab.eval.report.statistics import ALL, Cell, intervals, sums_of
from docagent_rl.lab.eval.run_facts import expected_trajectories, facts_of
from docagent_rl.lab.eval.scoring.protocols import JUDGED, protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A scored run: its short name, unique in a report, its trajectories and its `run.json`."""

    name: str
    trajectories: Sequence[ScoredTrajectory]
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run over all of its benchmarks, in alphabetical order."""

    name: str
    agent: str
    trajectories: int
    expected_trajectories: int | None
    """Trajectories of the whole run; `None` where its description does not say."""
    facts: dict[str, str]
    """Facts that its numbers rest on, by name, with those who judged."""
    benchmarks: dict[str, BenchmarkReport]
    papers: tuple[PaperRow, ...]
    """Rows that it is held against."""
    overall: dict[str, Number]
    """Numbers over all questions of the benchmarks of a paper's row, where the run has them all, by title."""


def report_on(run: ScoredRun, settings: ReportSettings) -> RunReport:
    """Report on one run."""
    by_dataset: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in run.trajectories:
        by_dataset.setdefault(trajectory.dataset, []).append(trajectory)
    benchmarks = {name: benchmark(name, by_dataset[name], settings) for name in sorted(by_dataset)}
    first, facts = next(iter(run.trajectories), None), facts_of(run.manifest)
    papers = () if first is None else tuple(rows_for(run.manifest.get("recipe"), first.system))
    judges = {by for each in benchmarks.values() for number in each.answers for by in number.by}
    return RunReport(
        name=run.name,
        agent="unknown" if first is None else first.agent,
        trajectories=len(run.trajectories),
        expected_trajectories=expected_trajectories(run.manifest),
        facts=facts | ({"judge or extractor": ", ".join(sorted(judges))} if judges else {}),
        benchmarks=benchmarks,
        papers=papers,
        overall={
            overall_title(row): _overall(run.trajectories, row, settings)
            for row in papers
            if overall_value(row) is not None and row.datasets() <= benchmarks.keys()
        },
    )


def overall_title(row: PaperRow) -> str:
    """Return the title of the number over all benchmarks of a paper's row."""
    *names, last = (protocol_of(dataset).name for dataset in sorted(row.datasets()))
    return f"{JUDGED.title}, over {', '.join(names)} and {last}"


def overall_value(row: PaperRow) -> float | None:
    """Return what a paper prints over all of its benchmarks."""
    printed = (each.value for each in row.numbers if (each.dataset, each.row) == (EVERY, ALL))
    return next(printed, None)


def _overall(trajectories: Sequence[ScoredTrajectory], row: PaperRow, settings: ReportSettings) -> Number:
    """Return the number over all questions of the benchmarks of a row, whichever they are of."""
    chosen = [each for each in trajectories if each.dataset in row.datasets()]
    (interval,) = intervals(sums_of(chosen, [Cell(JUDGED)]), draws=settings.draws, seed=settings.seed)
    return Number(JUDGED, ALL, interval, authors(JUDGED, chosen))
