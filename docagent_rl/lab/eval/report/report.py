"""A report: from scored runs to tables, a page and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from docagent_rl.lab.eval.report.benchmark import (
    ReportSettings,
    RunReport,
    ScoredRun,
    answer_measures,
    authors,
    report_on,
)
from docagent_rl.lab.eval.report.grid import Grid, markdown
from docagent_rl.lab.eval.report.paired import Comparison, compare, paired_table
from docagent_rl.lab.eval.report.tables import facts_table, overall_table, tables
from docagent_rl.lab.eval.scoring.experts import EXPERTS, expert_prompt
from docagent_rl.lab.eval.scoring.protocols import NAVIGATION, USE, protocol_of

PAGE, DATA = "report.md", "report.json"
VERSION = 2


@dataclass(frozen=True, slots=True)
class Report:
    """The tables of a report, and its files by name: `PAGE` and `DATA`."""

    grids: tuple[Grid, ...]
    files: dict[str, str]


def make_report(runs: Sequence[ScoredRun], settings: ReportSettings, *, paired: bool = False) -> Report:
    """Report on at least one run; `paired` compares the first two question by question."""
    reports = [report_on(run, settings) for run in runs]
    datasets = sorted({dataset for report in reports for dataset in report.benchmarks})
    grids = [*overall_table(reports), *(grid for dataset in datasets for grid in tables(reports, dataset))]
    compared: dict[str, Comparison] = {}
    for dataset in datasets if paired else ():
        compared[dataset], table = _paired(runs[:2], reports, dataset, settings)
        grids.append(table)
    grids += facts_table(reports)
    how = (
        f"Brackets are 95 % intervals over {settings.draws:,} resamples of documents (seed {settings.seed}). "
        "Trajectories of a question weigh one together; trajectories that were not played are wrong. "
        "docs/report.md says what every number is."
    )
    data = {
        "docagent_rl_report": VERSION,
        "settings": settings,
        "judge_prompts": {expert.value: expert_prompt(expert).digest for expert in EXPERTS},
        "runs": reports,
        "paired": compared,
    }
    files = {
        PAGE: markdown(grids, [how]),
        DATA: json.dumps(data, default=_data, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    return Report(tuple(grids), files)


def _paired(
    runs: Sequence[ScoredRun], reports: Sequence[RunReport], dataset: str, settings: ReportSettings
) -> tuple[Comparison, Grid]:
    """Compare two runs over a benchmark by its headline, and by what both have beside it."""
    sides = [[each for each in run.trajectories if each.dataset == dataset] for run in runs]
    headline, *others = answer_measures(dataset, [each for side in sides for each in side])
    known = [{n for each in side for n, value in each.values.items() if value is not None} for side in sides]
    both = [each for each in (*others, *NAVIGATION, *USE) if all(each.value in names for names in known)]
    every = [report.benchmarks[dataset] for report in reports if dataset in report.benchmarks]
    ruled = {number.measure.name for each in every for number in each.answers if number.ruled}
    ours, theirs = ([each for each in side if each.scored] for side in sides)
    draws, seed = settings.draws, settings.seed
    found = compare(ours, theirs, [headline, *both], ruled, draws=draws, seed=seed)
    judges = [", ".join(authors(headline, side)) for side in sides]
    return found, paired_table(found, runs[0].name, runs[1].name, protocol_of(dataset).name, judges)


def _data(value: Any) -> Any:
    """Return what JSON does not know as it knows it: fractions stay as they are."""
    return value.data() if hasattr(value, "data") else {f.name: getattr(value, f.name) for f in fields(value)}
