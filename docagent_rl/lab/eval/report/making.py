"""Making a report: from scored runs to texts and a picture."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from docagent_rl.lab.eval.report.as_json import as_json
from docagent_rl.lab.eval.report.build import (
    ReportSettings,
    ScoredRun,
    answer_measures,
    authors,
    report_on,
    rows_of,
    without_unread,
)
from docagent_rl.lab.eval.report.figure import figure
from docagent_rl.lab.eval.report.grids import Grid, RunView, grids
from docagent_rl.lab.eval.report.markdown import markdown
from docagent_rl.lab.eval.report.overall import overall_grid
from docagent_rl.lab.eval.report.paired import Comparison, compare
from docagent_rl.lab.eval.report.paired_grids import paired_grids
from docagent_rl.lab.eval.report.papers import against_papers
from docagent_rl.lab.eval.scoring.measures import Measure
from docagent_rl.lab.eval.scoring.numbers import NAVIGATION, USE
from docagent_rl.lab.eval.scoring.protocols import protocol_of

PICTURE = "report.svg"


@dataclass(frozen=True, slots=True)
class Report:
    """A report, ready to be shown and written.

    Args:
        grids: its tables.
        page: Markdown; it shows `PICTURE`.
        data: JSON.
        picture: SVG.
    """

    grids: tuple[Grid, ...]
    page: str
    data: str
    picture: str


def make_report(runs: Sequence[ScoredRun], settings: ReportSettings, *, paired: bool = False) -> Report:
    """Report on runs, at least one.

    Args:
        runs: with names of their own.
        settings: how numbers are made.
        paired: compare the first two, question by question.
    """
    views, runs = [], [replace(run, sessions=without_unread(run.sessions)) for run in runs]
    for run in runs:
        report = report_on(run, settings)
        views.append(RunView(report, tuple(against_papers(report, run.sessions, settings))))
    datasets = sorted({each.dataset for view in views for each in view.report.benchmarks})
    tables = [] if (whole := overall_grid(views)) is None else [whole]
    tables += [grid for dataset in datasets for grid in grids(views, dataset)]
    compared: dict[str, Comparison] = {}
    ruled: dict[str, set[str]] = {dataset: set() for dataset in datasets}
    for each in (report for view in views for report in view.report.benchmarks):
        ruled[each.dataset] |= {number.measure.name for number in each.answers if number.ruled}
    if paired:
        for dataset in datasets:
            compared[dataset] = _compared(runs[0], runs[1], dataset, settings)
            names = runs[0].name, runs[1].name
            judges = tuple(_judges(run, dataset) for run in runs[:2])
            title = protocol_of(dataset).name
            tables += paired_grids(compared[dataset], *names, title, ruled[dataset], judges)
    data = json.dumps(
        as_json(views, compared, settings, ruled), indent=2, ensure_ascii=False, allow_nan=False
    )
    return Report(
        grids=tuple(tables),
        page=markdown(tables, PICTURE, [_how(settings)]),
        data=data + "\n",
        picture=figure(views, datasets),
    )


def _compared(first: ScoredRun, second: ScoredRun, dataset: str, settings: ReportSettings) -> Comparison:
    ours, theirs = (
        [each for each in run.sessions if each.dataset == dataset and each.scored] for run in (first, second)
    )
    measures = _measures(dataset, first, second)
    return compare(ours, theirs, measures, rows_of, draws=settings.draws, seed=settings.seed)


def _judges(run: ScoredRun, dataset: str) -> str:
    """Who gave the opinions that a run's headline rests on."""
    sessions = [each for each in run.sessions if each.dataset == dataset]
    return ", ".join(authors(protocol_of(dataset).headline, sessions))


def _measures(dataset: str, first: ScoredRun, second: ScoredRun) -> list[Measure]:
    """The headline, and what else both runs have."""
    sessions = [each for run in (first, second) for each in run.sessions if each.dataset == dataset]
    every = (*answer_measures(dataset, sessions), *NAVIGATION, *USE)
    names = [
        {name for each in run.sessions if each.dataset == dataset for name, value in each.values.items()
         if value is not None}
        for run in (first, second)
    ]  # fmt: skip
    headline, *others = every
    return [headline, *(measure for measure in others if all(measure.value in there for there in names))]


def _how(settings: ReportSettings) -> str:
    return (
        f"Brackets are 95 % intervals over {settings.draws:,} resamples of documents (seed {settings.seed}). "
        "Sessions of a question weigh one together; sessions that were not played are wrong. "
        "docs/report.md says what every number is."
    )
