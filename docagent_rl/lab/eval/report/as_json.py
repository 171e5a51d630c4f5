"""A report as JSON."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from docagent_rl.lab.eval.metrics.scored import Mean
from docagent_rl.lab.eval.report.bootstrap import Interval
from docagent_rl.lab.eval.report.build import BenchmarkReport, Number, ReportSettings
from docagent_rl.lab.eval.report.grids import RunView
from docagent_rl.lab.eval.report.paired import Comparison, Difference
from docagent_rl.lab.eval.report.papers import AgainstPaper
from docagent_rl.lab.eval.report.sums import ALL, Row
from docagent_rl.lab.eval.scoring.experts import EXPERTS, expert_prompt
from docagent_rl.lab.eval.scoring.scored import plain

VERSION = 1


def as_json(
    views: Sequence[RunView],
    compared: Mapping[str, Comparison],
    settings: ReportSettings,
    ruled: Mapping[str, Collection[str]],
) -> dict[str, Any]:
    """The report with all of its numbers, fractions as they are.

    Args:
        views: of the runs.
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
                "name": view.report.name,
                "agent": view.report.agent,
                "sessions": view.report.sessions,
                "expected_sessions": view.report.expected,
                "facts": plain(asdict(view.report.facts)),
                "benchmarks": {each.dataset: _benchmark(each) for each in view.report.benchmarks},
                "papers": [_paper(against) for against in view.papers],
            }
            for view in views
        ],
        "paired": {dataset: _comparison(found, ruled[dataset]) for dataset, found in compared.items()},
    }


def _benchmark(report: BenchmarkReport) -> dict[str, Any]:
    return {
        "title": report.title,
        "systems": list(report.systems),
        "headline": report.headline.name,
        "questions": report.questions,
        "documents": report.documents,
        "sessions": report.sessions,
        "unscored": report.unscored,
        "masked": report.masked,
        "answers": [_number(number) for number in report.answers],
        "use": [_number(number) for number in report.use],
        "breakdowns": [_number(number) for number in report.parts],
        "pass_at": {str(k): _interval(found) for k, found in report.pass_at.items()},
        "seconds": asdict(report.seconds),
        "total_cost": report.total_cost,
        "agreement": {
            judge: {"judge": one, "second": other, **asdict(told)}
            for judge, (one, other, told) in report.agreements.items()
        },
        "verdicts": report.verdicts,
        "judge_failures": report.failures,
        "environment": {name: _mean(found) for name, found in report.environment.items()},
    }


def _number(number: Number) -> dict[str, Any]:
    return {
        "measure": number.measure.name,
        "title": number.measure.title,
        "unit": number.measure.unit.value,
        **_row(number.row),
        **_interval(number.interval),
        "by": list(number.by),
        "rule_judge": number.ruled,
    }


def _interval(found: Interval) -> dict[str, Any]:
    return asdict(found)


def _mean(found: Mean) -> dict[str, Any]:
    return {"value": found.value, "count": found.count}


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
                "ours": None if each.ours is None else _interval(each.ours),
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
        "only_second_right": [asdict(flip) for flip in found.gained],
        "only_first_right": [asdict(flip) for flip in found.given_up],
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
        "gain": _interval(each.gain),
        "p": each.p,
        "least_p": each.least_p,
        "p_holm": each.corrected,
    }
