"""Sums of scored trajectories per document, and intervals and tests that resample documents."""

import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from docagent_rl.lab.eval.scoring.scored import Measure, ScoredTrajectory

Row = tuple[str, str]
"""A line of a breakdown: kind and value. `ALL` means every question."""
ALL: Row = ("", "")


@dataclass(frozen=True, slots=True)
class Cell:
    """A number over the questions of a line."""

    measure: Measure
    row: Row = ALL


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of cells per document."""

    documents: tuple[str, ...]
    """Names of the `D` documents, sorted."""
    cells: tuple[Cell, ...]
    table: np.ndarray
    """`(D, columns)`, with `measure.width` columns per cell; all trajectories of a question
    together weigh as much as one.
    """
    questions: tuple[int, ...]
    """Number of questions with the value, per cell."""
    clusters: tuple[int, ...]
    """Number of documents of those questions, per cell."""

    def combine(self, totals: np.ndarray | None = None) -> np.ndarray:
        """Return the numbers of all cells, `(..., cells)`; NaN if a cell has no value.

        `totals` are sums over documents, `(..., columns)`; by default over all of them.
        """
        totals = self.table.sum(axis=0) if totals is None else totals
        found = []
        begin = 0
        for cell, questions in zip(self.cells, self.questions, strict=True):
            end = begin + cell.measure.width
            number = cell.measure.combine(totals[..., begin:end], questions)
            # F1 of no predictions is 0 by definition, but without any question it is undefined
            found.append(number if questions else np.full_like(number, np.nan))
            begin = end
        return np.stack(found, axis=-1) if found else np.zeros((*totals.shape[:-1], 0))


def sums_of(
    trajectories: Sequence[ScoredTrajectory],
    cells: Sequence[Cell],
    rows: Callable[[ScoredTrajectory], Sequence[Row]] = lambda _: (),
    among: Mapping[str, Collection[str]] | None = None,
) -> Sums:
    """Sum up the trajectories of one run and one benchmark.

    `rows` returns the breakdown lines in which a trajectory counts, apart from `ALL`. `among`
    contains the questions that count, by name of the measure; by default all that have the value.
    """
    names = sorted({each.document for each in trajectories})
    document_rows = {name: number for number, name in enumerate(names)}
    lines_of = [{ALL, *rows(each)} for each in trajectories]
    blocks = [np.zeros((len(names), 0))]
    questions = []
    clusters = []
    for cell in cells:
        measure = cell.measure
        valued = [
            (each, lines)
            for each, lines in zip(trajectories, lines_of, strict=True)
            if each.values.get(measure.value) is not None
        ]
        # all trajectories of a question together weigh as much as one
        weights = Counter(each.question_id for each, _ in valued)
        counted = [each for each, lines in valued if cell.row in lines]
        if among is not None:
            counted = [each for each in counted if each.question_id in among[measure.name]]

        block = np.zeros((len(names), measure.width))
        for each in counted:
            sums = np.divide(measure.sums(each.values), weights[each.question_id])
            block[document_rows[each.document]] += sums
        blocks.append(block)
        questions.append(len({each.question_id for each in counted}))
        clusters.append(len({each.document for each in counted}))
    return Sums(tuple(names), tuple(cells), np.hstack(blocks), tuple(questions), tuple(clusters))


def by_question(trajectories: Sequence[ScoredTrajectory], measure: Measure) -> Mapping[str, float]:
    """Return the mean value over the trajectories of each question that has a value."""
    found: dict[str, list[float]] = {}
    for trajectory in trajectories:
        if (value := trajectory.values.get(measure.value)) is not None:
            found.setdefault(trajectory.question_id, []).append(value)
    return {key: sum(values) / len(values) for key, values in found.items()}


_TAIL = (1 - 0.95) / 2
DRAWS = 10_000
EXACT = 14
"""Up to so many documents, all ways to swap the runs are tried."""
FEWEST = 6
"""From so many documents a p-value can be below 0.05: with five the smallest is 2 / 2**5."""
_CHUNK = 256
"""Resamples per chunk; changing it changes the numbers that a seed gives."""
_SLACK = 1e-12
"""Tolerance for sums that were rounded in a different order."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with its interval, and how many questions and documents it covers."""

    value: float | None
    low: float | None
    """`None`, like `high`, for fewer than two documents, which say nothing about others."""
    high: float | None
    questions: int
    documents: int


def intervals(
    sums: Sums, less: Sums | None = None, *, draws: int = DRAWS, seed: int = 0
) -> list[Interval]:
    """Return the number of every cell with its percentile interval, over the same resamples of
    documents.

    A resample draws as many documents as there are, with replacement; if it has no question of a
    cell, it is left out for that cell. `less`, with the same questions, documents and cells, is
    subtracted.
    """
    numbers = sums.combine()
    drawn = [sums.combine(totals) for totals in resampled(sums.table, draws, seed)]
    if less is not None:
        numbers = numbers - less.combine()
        # the same seed draws the same documents
        drawn_less = map(less.combine, resampled(less.table, draws, seed))
        drawn = [chunk - other for chunk, other in zip(drawn, drawn_less, strict=True)]
    low, high = ends(np.concatenate(drawn) if drawn else np.full((1, len(numbers)), np.nan))

    columns = zip(numbers, low, high, sums.questions, sums.clusters, strict=True)
    return [
        Interval(
            value=finite(number),
            low=finite(lower) if documents > 1 else None,
            high=finite(upper) if documents > 1 else None,
            questions=questions,
            documents=documents,
        )
        for number, lower, upper, questions, documents in columns
    ]


def resampled(table: np.ndarray, draws: int, seed: int) -> Iterator[np.ndarray]:
    """Yield sums over resamples of documents: arrays of at most `(256, columns)`."""
    documents = len(table)
    rng = np.random.default_rng(seed)
    for size in _chunks(draws if documents else 0):
        # how often each document is drawn
        counts = rng.multinomial(documents, np.full(documents, 1 / documents), size=size)
        yield counts.astype(float) @ table


def ends(found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the lower and upper ends of 95 % over the first axis, ignoring NaN."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # raised for columns that are all NaN
        low, high = np.nanquantile(found, (_TAIL, 1 - _TAIL), axis=0)
    return low, high


def finite(value: float) -> float | None:
    """Return the number, or `None` for NaN and infinity."""
    return float(value) if np.isfinite(value) else None


def p_values(first: Sums, second: Sums, *, draws: int, seed: int) -> list[float | None]:
    """Return the two-sided p-value of every cell's difference, in `(0, 1]`, by random swaps of the
    runs.

    All questions about a document are swapped together. Up to `EXACT` documents all possible swaps
    are tried; beyond that `draws` random ones, and the observed one is counted in addition. The
    p-value is `None` if a run has no value, or for fewer than `FEWEST` documents.
    """
    observed = np.abs(second.combine() - first.combine())
    change = second.table - first.table
    first_totals = first.table.sum(axis=0)
    second_totals = second.table.sum(axis=0)
    # for each cell, the swaps with a difference, and those whose difference is as large as observed
    tried = np.zeros(len(first.cells))
    reached = np.zeros(len(first.cells))
    exact = len(first.documents) <= EXACT
    for swaps in _swaps(len(change), None if exact else draws, seed):
        moved = swaps @ change
        swapped = second.combine(second_totals - moved) - first.combine(first_totals + moved)
        tried += np.sum(~np.isnan(swapped), axis=0)
        reached += np.sum(np.abs(swapped) >= observed - _SLACK, axis=0)
    if not exact:  # the observed one counts as a swap
        tried += 1
        reached += 1

    found: list[float | None] = []
    for cell, documents in enumerate(first.clusters):
        undefined = np.isnan(observed[cell]) or documents < FEWEST
        found.append(None if undefined else float(reached[cell] / tried[cell]))
    return found


def least_p(documents: int, draws: int) -> float | None:
    """Return the smallest p-value that a difference over so many documents can have; `None` for too
    few.
    """
    if documents < FEWEST:
        return None
    return 2.0 ** (1 - documents) if documents <= EXACT else 1 / (draws + 1)


def _swaps(documents: int, draws: int | None, seed: int) -> Iterator[np.ndarray]:
    """Yield swaps of the runs, all or `draws` random ones: arrays `(..., documents)` of 0 and 1."""
    rng = np.random.default_rng(seed)
    if draws is not None:
        for size in _chunks(draws):
            yield rng.integers(2, size=(size, documents)).astype(float)
        return

    # the bits of a number say which documents are swapped
    bits = np.arange(documents)
    begin = 0
    for size in _chunks(2**documents):
        numbers = np.arange(begin, begin + size)[:, None]
        yield ((numbers >> bits) & 1).astype(float)
        begin += size


def _chunks(number: int) -> Iterator[int]:
    """Yield the sizes of the chunks into which a number of resamples is split."""
    return (min(_CHUNK, number - begin) for begin in range(0, number, _CHUNK))
