"""Paired comparison of two runs: differences over the same questions, with p-values, as tables."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.envs.outcome import RIGHT_FROM
from docagent_rl.lab.eval.report.grid import MARK, RULED, TextTable, digits, interval_text, p_text
from docagent_rl.lab.eval.report.statistics import (
    DRAWS,
    FEWEST,
    Cell,
    Interval,
    Sums,
    by_question,
    finite,
    intervals,
    least_p,
    p_values,
    sums_of,
)
from docagent_rl.lab.eval.scoring.scored import Measure, ScoredTrajectory

_QUESTIONS_COLUMN = 4
"""The index of the column with the number of questions."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number compared between two runs."""

    measure: Measure
    ruled: bool
    """True if the embedded rule judge took the place of a model in either run."""
    first: float | None
    second: float | None
    gain: Interval
    """Second minus first."""
    p: float | None
    """P-value of the difference; `None` if there are too few documents."""
    least_p: float | None
    """Smallest p-value that a difference over so many documents can have."""

    @property
    def title(self) -> str:
        """Title of the measure, marked if the rule judge took the place of a model."""
        return f"{self.measure.title}{MARK if self.ruled else ''}"

    @property
    def cells(self) -> tuple[str, ...]:
        """Both numbers, their difference, questions, documents and the p-value, as text."""
        unit = self.measure.unit
        gain = self.gain
        sides = (
            digits(self.first, unit),
            digits(self.second, unit),
            interval_text(gain, unit, sign=True),
        )
        return (*sides, f"{gain.questions:,}", f"{gain.documents:,}", p_text(self.p))

    def data(self) -> dict[str, Any]:
        """Return the difference as in the JSON file."""
        numbers = {
            name: getattr(self, name) for name in ("first", "second", "gain", "p", "least_p")
        }
        return {"measure": self.measure.name, "rule_judge": self.ruled, **numbers}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs over the questions that both have; the fields are in the order of the JSON file."""

    numbers: tuple[Difference, ...]
    """Differences of all measures, the headline first."""
    won: int
    """Questions whose headline value is higher in the second run."""
    lost: int
    tied: int
    only_second_right: tuple[str, ...]
    """Ids of questions, as in the following fields."""
    only_first_right: tuple[str, ...]
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]
    of_different_documents: tuple[str, ...]
    """Questions with the same id about different documents; left out."""


def compare(
    first: Sequence[ScoredTrajectory],
    second: Sequence[ScoredTrajectory],
    measures: Sequence[Measure],
    ruled: Collection[str] = (),
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """Compare the trajectories of two runs on one benchmark whose right answers are known.

    Args:
        first: trajectories of the first run.
        second: trajectories of the second run.
        measures: numbers to compare, the headline first.
        ruled: names of the measures for which the rule judge took a model's place in either run.
        draws: number of resamples of documents, and of random swaps between the runs.
        seed: seed of both.
    """
    first_documents = {each.question_id: each.document for each in first}
    second_documents = {each.question_id: each.document for each in second}
    shared = first_documents.keys() & second_documents.keys()
    clashing = {key for key in shared if first_documents[key] != second_documents[key]}
    comparable = shared - clashing
    first = [each for each in first if each.question_id in comparable]
    second = [each for each in second if each.question_id in comparable]

    # a question counts for a measure if both runs have a value
    first_values = {each.name: by_question(first, each) for each in measures}
    second_values = {each.name: by_question(second, each) for each in measures}
    counted = {
        each.name: first_values[each.name].keys() & second_values[each.name].keys()
        for each in measures
    }
    cells = [Cell(measure) for measure in measures]
    first_sums = sums_of(first, cells, among=counted)
    second_sums = sums_of(second, cells, among=counted)

    headline = measures[0].name
    pairs = {
        key: (first_values[headline][key], second_values[headline][key])
        for key in sorted(counted[headline])
    }
    return Comparison(
        numbers=_differences(measures, first_sums, second_sums, ruled, draws, seed),
        won=sum(b > a for a, b in pairs.values()),
        lost=sum(b < a for a, b in pairs.values()),
        tied=sum(a == b for a, b in pairs.values()),
        only_second_right=tuple(key for key, (a, b) in pairs.items() if a < RIGHT_FROM <= b),
        only_first_right=tuple(key for key, (a, b) in pairs.items() if b < RIGHT_FROM <= a),
        only_in_first=tuple(sorted(first_documents.keys() - second_documents.keys())),
        only_in_second=tuple(sorted(second_documents.keys() - first_documents.keys())),
        of_different_documents=tuple(sorted(clashing)),
    )


def _differences(
    measures: Sequence[Measure],
    first: Sums,
    second: Sums,
    ruled: Collection[str],
    draws: int,
    seed: int,
) -> tuple[Difference, ...]:
    """Return the difference of every measure between the sums of two runs."""
    columns = zip(
        measures,
        first.combine(),
        second.combine(),
        intervals(second, first, draws=draws, seed=seed),
        p_values(first, second, draws=draws, seed=seed),
        strict=True,
    )
    return tuple(
        Difference(
            measure,
            ruled=measure.name in ruled,
            first=finite(first_number),
            second=finite(second_number),
            gain=gain,
            p=p,
            least_p=least_p(gain.documents, draws),
        )
        for measure, first_number, second_number, gain, p in columns
    )


def paired_table(
    found: Comparison, first: str, second: str, title: str, judges: Sequence[str] = ("", "")
) -> TextTable:
    """Return the table that compares the runs `first` and `second` on the benchmark `title`.

    The runs are named above the table and not in its head, so that it fits a terminal whatever
    their names; a column of questions is only there if their number is not the same in all rows.

    `judges` are the judges of each run's headline, empty if it needs none.
    """
    headline = found.numbers[0].title
    counts = {each.gain.questions for each in found.numbers}
    same_questions = len(counts) == 1
    notes = [f"over {min(counts):,} questions"] if same_questions else []
    notes += [
        f"{headline}: {second} is higher on {found.won:,} questions, {first} on {found.lost:,}, "
        f"and {found.tied:,} are equal",
        f"p: from swapping the runs per document; not given for fewer than {FEWEST} documents",
    ]
    if judges[0] != judges[1]:
        by = f"{first} was judged by {judges[0] or 'nobody'}, {second} by {judges[1] or 'nobody'}"
        notes.append(f"{by}: the difference may come from the judges, so neither run is better")
    for name, ids in (
        (f"only {second} is right", found.only_second_right),
        (f"only {first} is right", found.only_first_right),
        (f"left out, only in {first}", found.only_in_first),
        (f"left out, only in {second}", found.only_in_second),
        ("left out, same id but different documents", found.of_different_documents),
    ):
        if ids:
            notes.append(f"{name}: {len(ids):,} questions")
    if any(each.ruled for each in found.numbers):
        notes.append(RULED)

    head = ["number", "first", "second", "difference", "questions", "documents", "p"]
    rows = [[each.title, *each.cells] for each in found.numbers]
    if same_questions:
        for line in (head, *rows):
            del line[_QUESTIONS_COLUMN]
    named = f"{title}: {second} (second) against {first} (first)"
    return TextTable(named, tuple(head), tuple(map(tuple, rows)), tuple(notes))
