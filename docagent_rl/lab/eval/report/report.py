"""A report: from scored runs to tables, texts, JSON and a picture."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from docagent_rl.lab.eval.report.benchmark import (
    BenchmarkReport,
    Number,
    ReportSettings,
    answer_measures,
    authors,
    rows_of,
)
from docagent_rl.lab.eval.report.figure import figure
from docagent_rl.lab.eval.report.grid import Grid, markdown
from docagent_rl.lab.eval.report.paired import Comparison, Difference, compare
from docagent_rl.lab.eval.report.paired_tables import paired_tables
from docagent_rl.lab.eval.report.runs import AgainstPaper, RunReport, ScoredRun, report_on, without_unread
from docagent_rl.lab.eval.report.statistics import ALL, Row
from docagent_rl.lab.eval.report.tables import overall_table, tables
from docagent_rl.lab.eval.scoring.experts import EXPERTS, expert_prompt
from docagent_rl.lab.eval.scoring.measures import Measure
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory, plain
from docagent_rl.lab.eval.scoring.use import NAVIGATION, USE

PAGE, DATA, PICTURE = "report.md", "report.json", "report.svg"


@dataclass(frozen=True, slots=True)
class Report:
    """A report, ready to be shown and written.

    Args:
        grids: its tables.
        files: `PAGE`, which shows `PICTURE`, `DATA` and `PICTURE`, by name.
    """

    grids: tuple[Grid, ...]
    files: dict[str, str]


def make_report(runs: Sequence[ScoredRun], settings: ReportSettings, *, paired: bool = False) -> Report:
    """Report on runs, at least one.

    Args:
        runs: with names of their own.
        settings: how numbers are made.
        paired: compare the first two, question by question.
    """
    runs = [replace(run, trajectories=without_unread(run.trajectories)) for run in runs]
    reports = [report_on(run, settings) for run in runs]
    datasets = sorted({each.dataset for report in reports for each in report.benchmarks})
    grids = [*overall_table(reports), *(grid for dataset in datasets for grid in tables(reports, dataset))]
    ruled = {dataset: _ruled(reports, dataset) for dataset in datasets}
    compared: dict[str, Comparison] = {}
    for dataset in datasets if paired else ():
        compared[dataset], more = _compared(runs[0], runs[1], dataset, settings, ruled[dataset])
        grids += more
    how = (
        f"Brackets are 95 % intervals over {settings.draws:,} resamples of documents (seed {settings.seed}). "
        "Trajectories of a question weigh one together; trajectories that were not played are wrong. "
        "docs/report.md says what every number is."
    )
    data = as_json(reports, compared, settings, ruled)
    files = {
        PAGE: markdown(grids, PICTURE, [how]),
        DATA: json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n",
        PICTURE: figure(reports, datasets),
    }
    return Report(tuple(grids), files)


def _ruled(reports: Sequence[RunReport], dataset: str) -> set[str]:
    """Return the names of measures that the embedded rule judge stands in for, in some run."""
    found = [report.on(dataset) for report in reports]
    return {number.measure.name for each in found if each for number in each.answers if number.ruled}


def _compared(
    first: ScoredRun, second: ScoredRun, dataset: str, settings: ReportSettings, ruled: Collection[str]
) -> tuple[Comparison, list[Grid]]:
    sides = [[each for each in run.trajectories if each.dataset == dataset] for run in (first, second)]
    measures, protocol = _measures(dataset, sides), protocol_of(dataset)
    ours, theirs = ([each for each in side if each.scored] for side in sides)
    found = compare(ours, theirs, measures, rows_of, draws=settings.draws, seed=settings.seed)
    judges = [", ".join(authors(protocol.headline, side)) for side in sides]
    return found, paired_tables(found, first.name, second.name, protocol.name, ruled, judges)


def _measures(dataset: str, sides: Sequence[Sequence[ScoredTrajectory]]) -> list[Measure]:
    """Return the headline, and what else both runs have."""
    every = answer_measures(dataset, [each for side in sides for each in side])
    headline, *others = (*every, *NAVIGATION, *USE)
    names = [
        {name for each in side for name, value in each.values.items() if value is not None} for side in sides
    ]
    return [headline, *(measure for measure in others if all(measure.value in found for found in names))]


VERSION = 1


def as_json(
    runs: Sequence[RunReport],
    compared: Mapping[str, Comparison],
    settings: ReportSettings,
    ruled: Mapping[str, Collection[str]],
) -> dict[str, Any]:
    """Return the report with all of its numbers, fractions as they are.

    Args:
        runs: reports on them.
        compared: paired comparisons by dataset; none where none was asked for.
        settings: that numbers were made by.
        ruled: names of measures that the embedded rule judge stands in for, by dataset.
    """
    return {
        "docagent_rl_report": VERSION,
        "settings": asdict(settings),
        "judge_prompts": {expert.value: expert_prompt(expert).digest for expert in EXPERTS},
        "runs": [
            {
                "name": run.name,
                "agent": run.agent,
                "trajectories": run.trajectories,
                "expected_trajectories": run.expected,
                "facts": plain(asdict(run.facts)),
                "benchmarks": {each.dataset: _benchmark(each) for each in run.benchmarks},
                "papers": [_paper(against) for against in run.papers],
            }
            for run in runs
        ],
        "paired": {dataset: _comparison(found, ruled[dataset]) for dataset, found in compared.items()},
    }


def _benchmark(report: BenchmarkReport) -> dict[str, Any]:
    same = ("questions", "documents", "trajectories", "unscored", "masked")
    return {
        "title": report.title,
        "systems": list(report.systems),
        "headline": report.headline.name,
        **{name: getattr(report, name) for name in same},
        "answers": list(map(_number, report.answers)),
        "use": list(map(_number, report.use)),
        "breakdowns": list(map(_number, report.parts)),
        "pass_at": {str(k): asdict(found) for k, found in report.pass_at.items()},
        "seconds": asdict(report.seconds),
        "total_cost": report.total_cost,
        "agreement": {
            judge: {"judge": one, "second": other, **asdict(found)}
            for judge, (one, other, found) in report.agreements.items()
        },
        "verdicts": report.verdicts,
        "judge_failures": report.failures,
        "environment": {name: asdict(found) for name, found in report.environment.items()},
    }


def _number(number: Number) -> dict[str, Any]:
    return {
        "measure": number.measure.name,
        "title": number.measure.title,
        "unit": number.measure.unit.value,
        **_row(number.row),
        **asdict(number.interval),
        "by": list(number.by),
        "rule_judge": number.ruled,
    }


def _row(row: Row) -> dict[str, str]:
    return {} if row == ALL else {"by_kind": row[0], "line": row[1]}


def _paper(against: AgainstPaper) -> dict[str, Any]:
    return {
        "recipe": against.row.recipe,
        "paper": against.row.title,
        "dataset": against.dataset,
        "by": list(against.judges),
        "numbers": [
            {
                "measure": each.target.measure,
                **_row(each.target.row),
                "paper": each.target.value,
                "ours": None if each.ours is None else asdict(each.ours),
                "gap": each.gap,
                "paper_inside_interval": each.inside,
            }
            for each in against.numbers
        ],
        "protocol": [asdict(fact) for fact in against.facts],
    }


def _comparison(found: Comparison, ruled: Collection[str]) -> dict[str, Any]:
    return {
        "numbers": [_difference(each, ruled) for each in found.whole],
        "breakdowns": [_difference(each, ruled) for each in found.parts],
        "won": found.won,
        "lost": found.lost,
        "tied": found.tied,
        "only_second_right": list(map(asdict, found.gained)),
        "only_first_right": list(map(asdict, found.given_up)),
        "only_in_first": list(found.only_first),
        "only_in_second": list(found.only_second),
        "of_different_documents": list(found.clashing),
    }


def _difference(each: Difference, ruled: Collection[str]) -> dict[str, Any]:
    return {
        "measure": each.cell.measure.name,
        "rule_judge": each.cell.measure.name in ruled,
        **_row(each.cell.row),
        "first": each.first,
        "second": each.second,
        "gain": asdict(each.gain),
        "p": each.p,
        "least_p": each.least_p,
        "p_holm": each.corrected,
    }
