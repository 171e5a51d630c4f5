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
    by_question,
    finite,
    intervals,
    least_p,
    p_values,
    sums_of,
)
from docagent_rl.lab.eval.scoring.scored import Measure, ScoredTrajectory

_QUESTIONS = 4
"""The place of the number of questions in a row of the table."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number compared between two runs."""

    measure: Measure
    ruled: bool
    """Whether the embedded rule judge took the place of a model in either run."""
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
    homes = [{each.question_id: each.document for each in run} for run in (first, second)]
    shared = homes[0].keys() & homes[1].keys()
    clashing = {key for key in shared if homes[0][key] != homes[1][key]}
    ours, theirs = (
        [each for each in run if each.question_id in shared - clashing] for run in (first, second)
    )
    cells = [Cell(measure) for measure in measures]
    among = {
        measure.name: by_question(ours, measure).keys() & by_question(theirs, measure).keys()
        for measure in measures
    }
    a, b = (sums_of(trajectories, cells, among=among) for trajectories in (ours, theirs))
    gains = intervals(b, a, draws=draws, seed=seed)
    tests = p_values(a, b, draws=draws, seed=seed)
    found = [
        Difference(
            each,
            each.name in ruled,
            finite(one),
            finite(other),
            gain,
            p,
            least_p(gain.documents, draws),
        )
        for each, one, other, gain, p in zip(
            measures, a.combine(), b.combine(), gains, tests, strict=True
        )
    ]
    values = by_question(ours, measures[0]), by_question(theirs, measures[0])
    pairs = {key: (values[0][key], values[1][key]) for key in sorted(among[measures[0].name])}
    return Comparison(
        numbers=tuple(found),
        won=sum(b > a for a, b in pairs.values()),
        lost=sum(b < a for a, b in pairs.values()),
        tied=sum(a == b for a, b in pairs.values()),
        only_second_right=tuple(key for key, (a, b) in pairs.items() if a < RIGHT_FROM <= b),
        only_first_right=tuple(key for key, (a, b) in pairs.items() if b < RIGHT_FROM <= a),
        only_in_first=tuple(sorted(homes[0].keys() - homes[1].keys())),
        only_in_second=tuple(sorted(homes[1].keys() - homes[0].keys())),
        of_different_documents=tuple(sorted(clashing)),
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
    notes = [f"over {min(counts):,} questions"] if len(counts) == 1 else []
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
    notes += [RULED] if any(each.ruled for each in found.numbers) else []
    head = ["number", "first", "second", "difference", "questions", "documents", "p"]
    rows = [[each.title, *each.cells] for each in found.numbers]
    if len(counts) == 1:
        for line in (head, *rows):
            del line[_QUESTIONS]
    named = f"{title}: {second} (second) against {first} (first)"
    return TextTable(named, tuple(head), tuple(map(tuple, rows)), tuple(notes))
