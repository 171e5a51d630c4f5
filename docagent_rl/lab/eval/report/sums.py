"""Scored sessions as sums by document: all that numbers, their intervals and comparisons are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from docagent_rl.lab.eval.scoring.measures import Measure
from docagent_rl.lab.eval.scoring.scored import ScoredSession

Row = tuple[str, str]
"""A line of a breakdown: kind and value. `ALL` is every question."""
ALL: Row = ("", "")


@dataclass(frozen=True, slots=True)
class Cell:
    """A number over some of the questions.

    Args:
        measure: the number.
        row: which questions count.
    """

    measure: Measure
    row: Row = ALL


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of cells by document.

    Args:
        documents: `D` of them, in alphabetical order.
        cells: in order; each has `measure.width` columns.
        table: `(D, columns)`. Sessions of a question that have the value weigh one together.
        questions: of each cell, those that have its value.
        clusters: documents that they are about.
    """

    documents: tuple[str, ...]
    cells: tuple[Cell, ...]
    table: np.ndarray
    questions: tuple[int, ...]
    clusters: tuple[int, ...]

    def combine(self, totals: np.ndarray) -> np.ndarray:
        """The numbers of all cells.

        Args:
            totals: `(..., columns)`, sums over documents.

        Returns:
            `(..., cells)`; NaN where a cell has no value.
        """
        found, begin = [], 0
        for cell, questions in zip(self.cells, self.questions, strict=True):
            end = begin + cell.measure.width
            number = cell.measure.combine(totals[..., begin:end], questions)
            # an F1 of nothing is 0 by definition; of no question at all it is nothing
            found.append(number if questions else np.full_like(number, np.nan))
            begin = end
        return np.stack(found, axis=-1) if found else np.zeros((*totals.shape[:-1], 0))


Rows = Callable[[ScoredSession], Sequence[Row]]
"""The lines of breakdowns that a session stands in; `ALL` is understood."""


def sums_of(
    sessions: Sequence[ScoredSession],
    cells: Sequence[Cell],
    rows: Rows = lambda _: (),
    documents: Sequence[str] | None = None,
    among: Mapping[str, Collection[str]] | None = None,
) -> Sums:
    """Sum up sessions.

    Args:
        sessions: of one run and one benchmark.
        cells: what is asked.
        rows: of a session.
        documents: those of the table; by default those of the sessions.
        among: questions that count, by name of the measure; by default all that have the value.
    """
    names = sorted({each.document for each in sessions} if documents is None else set(documents))
    place = {name: number for number, name in enumerate(names)}
    begins = np.cumsum([0, *(cell.measure.width for cell in cells)])
    by_row: dict[Row, list[int]] = {}
    for number, cell in enumerate(cells):
        by_row.setdefault(cell.row, []).append(number)
    measures = {cell.measure.name: cell.measure for cell in cells}
    having = Counter(
        (name, each.question_id)
        for each in sessions
        for name, measure in measures.items()
        if measure.of(each.values) is not None
    )
    table = np.zeros((len(names), int(begins[-1])))
    questions: list[set[str]] = [set() for _ in cells]
    clusters: list[set[str]] = [set() for _ in cells]
    for session in sessions:
        line = table[place[session.document]]
        for row in {ALL, *rows(session)}:
            for number in by_row.get(row, ()):
                measure = cells[number].measure
                if measure.of(session.values) is None:
                    continue
                if among is not None and session.question_id not in among[measure.name]:
                    continue
                begin = begins[number]
                line[begin : begin + measure.width] += np.divide(
                    measure.sums(session.values), having[measure.name, session.question_id]
                )
                questions[number].add(session.question_id)
                clusters[number].add(session.document)
    return Sums(tuple(names), tuple(cells), table, tuple(map(len, questions)), tuple(map(len, clusters)))


def by_question(sessions: Sequence[ScoredSession], measure: Measure) -> Mapping[str, float]:
    """The mean value over the sessions of each question that has one."""
    found: dict[str, list[float]] = {}
    for session in sessions:
        value = measure.of(session.values)
        if value is not None:
            found.setdefault(session.question_id, []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}
