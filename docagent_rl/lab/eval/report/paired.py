"""Two runs over the same questions: how far they differ, on which, and whether it may be chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from docagent_rl.lab.eval.report.statistics import (
    DRAWS,
    Cell,
    Interval,
    Row,
    Rows,
    by_question,
    finite,
    gain_intervals,
    holm,
    least_p,
    p_values,
    sums_of,
)
from docagent_rl.lab.eval.scoring.measures import Measure
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory

RIGHT = 0.5
"""A question counts as answered right from here on, where scores are graded."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number of two runs.

    Args:
        cell: the number, and the questions it is over.
        first: of the first run.
        second: of the second run.
        gain: second minus first, with its interval.
        p: that chance alone makes such a difference; `None` of too few documents to tell.
        least_p: that a difference over as many documents can have.
        corrected: the p-value corrected by Holm for all lines of the breakdowns; `None` for the whole.
    """

    cell: Cell
    first: float | None
    second: float | None
    gain: Interval
    p: float | None
    least_p: float | None
    corrected: float | None = None


@dataclass(frozen=True, slots=True)
class Flip:
    """A question that one run answers right and the other does not.

    Args:
        question_id: the question.
        first: its value in the first run, mean over trajectories.
        second: in the second.
    """

    question_id: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs over the questions that both have.

    Args:
        whole: of each measure, the headline first.
        parts: of the headline by line of the breakdowns.
        won: questions whose headline value is higher in the second run.
        lost: lower.
        tied: equal.
        gained: questions that only the second run answers right.
        given_up: that only the first does.
        only_first: questions that the second run lacks.
        only_second: that the first lacks.
        clashing: questions of one id that are about another document; left out.
    """

    whole: tuple[Difference, ...]
    parts: tuple[Difference, ...]
    won: int
    lost: int
    tied: int
    gained: tuple[Flip, ...]
    given_up: tuple[Flip, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    clashing: tuple[str, ...]


def compare(
    first: Sequence[ScoredTrajectory],
    second: Sequence[ScoredTrajectory],
    measures: Sequence[Measure],
    rows: Rows = lambda _: (),
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """Compare two runs over one benchmark.

    Args:
        first: trajectories whose right answers are known.
        second: of the other run.
        measures: the headline first.
        rows: lines of the breakdowns that a trajectory stands in; those of the first run's trajectories
            count.
        draws: resamples of documents, and random ways to change sides.
        seed: of both.
    """
    homes = _documents(first), _documents(second)
    shared = homes[0].keys() & homes[1].keys()
    clashing = {key for key in shared if homes[0][key] != homes[1][key]}
    ours, theirs = (
        [each for each in run if each.question_id in shared - clashing] for run in (first, second)
    )
    lines = {each.question_id: tuple(rows(each)) for each in ours}
    kinds = sorted({row for found in lines.values() for row in found})
    cells = [Cell(measure) for measure in measures] + [Cell(measures[0], row) for row in kinds]

    def rows_of(trajectory: ScoredTrajectory) -> Sequence[Row]:
        return lines.get(trajectory.question_id, ())

    found = _differences(ours, theirs, cells, rows_of, draws, seed)
    whole, parts = found[: len(measures)], found[len(measures) :]
    corrected = holm([part.p for part in parts])
    a, b = by_question(ours, measures[0]), by_question(theirs, measures[0])
    pairs = [Flip(key, a[key], b[key]) for key in sorted(a.keys() & b.keys())]
    return Comparison(
        whole=tuple(whole),
        parts=tuple(replace(part, corrected=p) for part, p in zip(parts, corrected, strict=True)),
        won=sum(pair.second > pair.first for pair in pairs),
        lost=sum(pair.second < pair.first for pair in pairs),
        tied=sum(pair.second == pair.first for pair in pairs),
        gained=tuple(pair for pair in pairs if pair.first < RIGHT <= pair.second),
        given_up=tuple(pair for pair in pairs if pair.second < RIGHT <= pair.first),
        only_first=tuple(sorted(homes[0].keys() - homes[1].keys())),
        only_second=tuple(sorted(homes[1].keys() - homes[0].keys())),
        clashing=tuple(sorted(clashing)),
    )


def _differences(
    ours: Sequence[ScoredTrajectory],
    theirs: Sequence[ScoredTrajectory],
    cells: Sequence[Cell],
    rows: Rows,
    draws: int,
    seed: int,
) -> list[Difference]:
    among = {
        cell.measure.name: by_question(ours, cell.measure).keys() & by_question(theirs, cell.measure).keys()
        for cell in cells
    }
    a, b = (sums_of(trajectories, cells, rows, among) for trajectories in (ours, theirs))
    gains = gain_intervals(a, b, draws=draws, seed=seed)
    tests = p_values(a, b, draws=draws, seed=seed)
    return [
        Difference(cell, finite(first), finite(second), gain, p, least_p(gain.documents, draws))
        for cell, first, second, gain, p in zip(cells, a.combine(), b.combine(), gains, tests, strict=True)
    ]


def _documents(trajectories: Iterable[ScoredTrajectory]) -> dict[str, str]:
    return {each.question_id: each.document for each in trajectories}
