"""Numbers of a run over all its benchmarks, and the papers with which it is compared."""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.lab.eval.report.benchmark import (
    BenchmarkReport,
    Number,
    ReportSettings,
    authors,
    benchmark,
)
from docagent_rl.lab.eval.report.papers import EVERY, PaperRow, rows_for
from docagent_rl.lab.eval.report.statistics import ALL, Cell, intervals, sums_of
from docagent_rl.lab.eval.run_facts import expected_trajectories, facts_of
from docagent_rl.lab.eval.scoring.protocols import JUDGED, protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A scored run: its short name, unique in a report, its trajectories and its manifest."""

    name: str
    trajectories: Sequence[ScoredTrajectory]
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run on all its benchmarks, in alphabetical order."""

    name: str
    agent: str
    trajectories: int
    expected_trajectories: int | None
    """Number of trajectories of a complete run; `None` if the manifest lacks it."""
    facts: dict[str, str]
    """Facts on which its numbers rest, by name, including the judges."""
    benchmarks: dict[str, BenchmarkReport]
    papers: tuple[PaperRow, ...]
    """Rows of papers with which it is compared."""
    overall: dict[str, Number]
    """Numbers over all questions of the benchmarks in a paper's row, if the run has all of them, by
    title.
    """


def report_on(run: ScoredRun, settings: ReportSettings) -> RunReport:
    """Report on one run."""
    by_dataset: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in run.trajectories:
        by_dataset.setdefault(trajectory.dataset, []).append(trajectory)
    benchmarks = {name: benchmark(name, by_dataset[name], settings) for name in sorted(by_dataset)}

    papers: tuple[PaperRow, ...] = ()
    agent = "unknown"
    if run.trajectories:
        first = run.trajectories[0]
        agent = first.agent
        overrides = [str(each) for each in run.manifest.get("overrides") or ()]
        papers = tuple(rows_for(run.manifest.get("recipe"), first.system, overrides))

    facts = facts_of(run.manifest)
    judges = {by for each in benchmarks.values() for number in each.answers for by in number.by}
    if judges:
        facts = {**facts, "judge or extractor": ", ".join(sorted(judges))}
    return RunReport(
        name=run.name,
        agent=agent,
        trajectories=len(run.trajectories),
        expected_trajectories=expected_trajectories(run.manifest),
        facts=facts,
        benchmarks=benchmarks,
        papers=papers,
        overall=_overall(run, papers, benchmarks, settings),
    )


def _overall(
    run: ScoredRun,
    papers: Iterable[PaperRow],
    played: Container[str],
    settings: ReportSettings,
) -> dict[str, Number]:
    """Return the numbers that papers print over all questions of several benchmarks, by title."""
    found = {}
    for row in papers:
        names = row.datasets()
        if overall_value(row) is None or not all(name in played for name in names):
            continue
        chosen = [each for each in run.trajectories if each.dataset in names]
        sums = sums_of(chosen, [Cell(JUDGED)])
        (interval,) = intervals(sums, draws=settings.draws, seed=settings.seed)
        found[overall_title(row)] = Number(JUDGED, ALL, interval, authors(JUDGED, chosen))
    return found


def overall_title(row: PaperRow) -> str:
    """Return the title of the number over all benchmarks of a paper's row."""
    *names, last = (protocol_of(dataset).name for dataset in sorted(row.datasets()))
    return f"{JUDGED.title}, over {', '.join(names)} and {last}"


def overall_value(row: PaperRow) -> float | None:
    """Return the number that a paper prints over all its benchmarks."""
    printed = (each.value for each in row.numbers if (each.dataset, each.row) == (EVERY, ALL))
    return next(printed, None)
