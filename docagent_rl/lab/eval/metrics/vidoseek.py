"""ViDoSeek (ViDoRAG, `llms/evaluator.py`, `utils/overall_evaluator.py`): grades of a judge, and rankings."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from docagent_rl.lab.eval.metrics.retrieval import CUTOFFS, ranking_scores
from docagent_rl.lab.eval.metrics.scored import Mean, mean_of_each

PASSING = 4
"""The least grade that passes, of 1 to 5."""

_DIGIT = re.compile(r"\d")
_SUFFIXES = frozenset({".pdf", ".jpg", ".jpeg", ".png"})


@dataclass(frozen=True, slots=True)
class Grades:
    """What a judge made of a set of answers.

    Args:
        mean: grade over all questions.
        passing: share of the questions with a passing grade.
        count: questions.
        failures: questions that the judge never graded; they count 0.
    """

    mean: float
    passing: float
    count: int
    failures: int


def parse_score_judge(text: str) -> int | None:
    """The grade in a judge's reply, its first digit anywhere: `10` is 1. `None` without one."""
    found = _DIGIT.search(text)
    return int(found[0]) if found else None


def grades(parsed: Iterable[int | None]) -> Grades:
    """Mean grade and passing rate; `None` is a judge that failed after its retries."""
    rows = list(parsed)
    if not rows:
        return Grades(0.0, 0.0, 0, 0)
    given = [grade or 0 for grade in rows]
    passed = sum(grade >= PASSING for grade in given)
    return Grades(sum(given) / len(rows), passed / len(rows), len(rows), rows.count(None))


def page_id(file_name: str, page: int) -> str:
    """`<file stem>_<page>` with a page from 1; only a known suffix is cut, since names contain dots."""
    path = PurePosixPath(file_name)
    stem = path.stem if path.suffix.lower() in _SUFFIXES else path.name
    return f"{stem}_{page}"


def retrieval_table(
    rows: Iterable[tuple[Collection[str], Sequence[str]]], cutoffs: Sequence[int | None] = CUTOFFS
) -> dict[str, Mean]:
    """Means of recall, hit rate, nDCG and reciprocal rank over questions.

    Args:
        rows: gold page ids and ranked ones, of each question. Questions without gold pages are left out:
            `Mean.count` says how many are in.
        cutoffs: see `ranking_scores`. For the whole list every question has its own length.
    """
    return mean_of_each(ranking_scores(gold, ranked, cutoffs) for gold, ranked in rows)
