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
from docagent_rl.lab.eval.report.paired import Comparison, Difference, compare, paired_tables
from docagent_rl.lab.eval.report.runs import AgainstPaper, RunReport, ScoredRun, report_on, without_unread
from docagent_rl.lab.eval.report.statistics import ALL, Row
from docagent_rl.lab.eval.report.tables import overall_table, tables
from docagent_rl.lab.eval.scoring.experts import EXPERTS, expert_prompt
from docagent_rl.lab.eval.scoring.protocols import NAVIGATION, USE, protocol_of
from docagent_rl.lab.eval.scoring.scored import plain

PAGE, DATA, PICTURE = "report.md", "report.json", "report.svg"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Report:
    """The tables of a report, and its files by name: `PAGE`, which shows `PICTURE`, `DATA` and `PICTURE`."""

    grids: tuple[Grid, ...]
    files: dict[str, str]


def make_report(runs: Sequence[ScoredRun], settings: ReportSettings, *, paired: bool = False) -> Report:
    """Report on at least one run; `paired` compares the first two question by question."""
    runs = [replace(run, trajectories=without_unread(run.trajectories)) for run in runs]
    reports = [report_on(run, settings) for run in runs]
    datasets = sorted({each.dataset for report in reports for each in report.benchmarks})
    grids = [*overall_table(reports), *(grid for dataset in datasets for grid in tables(reports, dataset))]
    ruled: dict[str, set[str]] = {dataset: set() for dataset in datasets}
    for each in (each for report in reports for each in report.benchmarks):
        ruled[each.dataset] |= {number.measure.name for number in each.answers if number.ruled}
    compared: dict[str, Comparison] = {}
    for dataset in datasets if paired else ():
        sides = [[each for each in run.trajectories if each.dataset == dataset] for run in runs[:2]]
        headline, *others = answer_measures(dataset, [each for side in sides for each in side])
        # beside the headline, what both runs have
        names = [
            {name for each in side for name, value in each.values.items() if value is not None}
            for side in sides
        ]
        both = [each for each in (*others, *NAVIGATION, *USE) if all(each.value in found for found in names)]
        ours, theirs = ([each for each in side if each.scored] for side in sides)
        draws, seed = settings.draws, settings.seed
        compared[dataset] = compare(ours, theirs, [headline, *both], rows_of, draws=draws, seed=seed)
        protocol = protocol_of(dataset)
        judges = [", ".join(authors(protocol.headline, side)) for side in sides]
        grids += paired_tables(
            compared[dataset], runs[0].name, runs[1].name, protocol.name, ruled[dataset], judges
        )
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


def as_json(
    runs: Sequence[RunReport],
    compared: Mapping[str, Comparison],
    settings: ReportSettings,
    ruled: Mapping[str, Collection[str]],
) -> dict[str, Any]:
    """Return all numbers of a report, fractions as they are.

    `compared` has the paired comparisons, `ruled` the measures that the embedded rule judge stands in for, by
    dataset.
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
        "seconds": report.seconds,
        "total_cost": report.total_cost,
        "agreement": {
            judge: {"judge": one, "second": other, **asdict(found)}
            for judge, (one, other, found) in report.agreements.items()
        },
        "verdicts": report.verdicts,
        "judge_failures": report.failures,
        "environment": report.environment,
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
