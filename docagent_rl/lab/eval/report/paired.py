"""Two runs over the same questions: how far they differ, on which, and whether it may be chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from docagent_rl.lab.eval.report.bootstrap import DRAWS, LEVEL, Interval, counts, ends, number
from docagent_rl.lab.eval.report.permutation import holm, least_p, p_values
from docagent_rl.lab.eval.report.sums import Cell, Row, Rows, by_question, sums_of
from docagent_rl.lab.eval.scoring.measures import Measure
from docagent_rl.lab.eval.scoring.scored import ScoredSession

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
        corrected: the same, corrected by Holm for all lines of the breakdowns; `None` for the whole.
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
        first: its value in the first run, mean over sessions.
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
    first: Sequence[ScoredSession],
    second: Sequence[ScoredSession],
    measures: Sequence[Measure],
    rows: Rows = lambda _: (),
    *,
    draws: int = DRAWS,
    seed: int = 0,
    level: float = LEVEL,
) -> Comparison:
    """Compare two runs over one benchmark.

    Args:
        first: sessions whose right answers are known.
        second: of the other run.
        measures: the headline first.
        rows: lines of the breakdowns that a session stands in; those of the first run's sessions count.
        draws: resamples of documents, and random ways to change sides.
        seed: of both.
        level: of the intervals.
    """
    homes = _documents(first), _documents(second)
    shared = homes[0].keys() & homes[1].keys()
    clashing = {key for key in shared if homes[0][key] != homes[1][key]}
    both = shared - clashing
    ours = [each for each in first if each.question_id in both]
    theirs = [each for each in second if each.question_id in both]
    lines = {each.question_id: tuple(rows(each)) for each in ours}
    kinds = sorted({row for found in lines.values() for row in found})
    cells = [Cell(measure) for measure in measures] + [Cell(measures[0], row) for row in kinds]
    found = _differences(ours, theirs, cells, lines, draws, seed, level)
    whole, parts = found[: len(measures)], found[len(measures) :]
    corrected = holm([part.p for part in parts])
    a, b = by_question(ours, measures[0]), by_question(theirs, measures[0])
    pairs = [(key, a[key], b[key]) for key in sorted(a.keys() & b.keys())]
    return Comparison(
        whole=tuple(whole),
        parts=tuple(replace(part, corrected=p) for part, p in zip(parts, corrected, strict=True)),
        won=sum(y > x for _, x, y in pairs),
        lost=sum(y < x for _, x, y in pairs),
        tied=sum(y == x for _, x, y in pairs),
        gained=tuple(Flip(*pair) for pair in pairs if pair[1] < RIGHT <= pair[2]),
        given_up=tuple(Flip(*pair) for pair in pairs if pair[2] < RIGHT <= pair[1]),
        only_first=tuple(sorted(homes[0].keys() - homes[1].keys())),
        only_second=tuple(sorted(homes[1].keys() - homes[0].keys())),
        clashing=tuple(sorted(clashing)),
    )


def _differences(
    ours: Sequence[ScoredSession],
    theirs: Sequence[ScoredSession],
    cells: Sequence[Cell],
    lines: Mapping[str, Sequence[Row]],
    draws: int,
    seed: int,
    level: float,
) -> list[Difference]:
    def row(session: ScoredSession) -> Sequence[Row]:
        return lines.get(session.question_id, ())

    documents = sorted({each.document for each in ours})
    among = {
        cell.measure.name: by_question(ours, cell.measure).keys() & by_question(theirs, cell.measure).keys()
        for cell in cells
    }
    a, b = (sums_of(sessions, cells, row, documents, among) for sessions in (ours, theirs))
    values = a.combine(a.table.sum(axis=0)), b.combine(b.table.sum(axis=0))
    found = [
        b.combine(times @ b.table) - a.combine(times @ a.table)
        for times in counts(len(documents), draws, seed)
    ]
    low, high = ends(np.concatenate(found) if found else np.full((1, len(cells)), np.nan), level)
    tests = p_values(a, b, draws=draws, seed=seed)
    return [
        Difference(
            cell=cell,
            first=number(values[0][place]),
            second=number(values[1][place]),
            gain=Interval(
                value=number(values[1][place] - values[0][place]),
                low=number(low[place]) if a.clusters[place] > 1 else None,
                high=number(high[place]) if a.clusters[place] > 1 else None,
                questions=a.questions[place],
                documents=a.clusters[place],
            ),
            p=tests[place],
            least_p=least_p(a.clusters[place], draws),
        )
        for place, cell in enumerate(cells)
    ]


def _documents(sessions: Iterable[ScoredSession]) -> dict[str, str]:
    return {each.question_id: each.document for each in sessions}
