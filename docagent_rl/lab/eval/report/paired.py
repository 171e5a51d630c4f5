"""Paired comparison of two runs: their differences over the same questions, with p-values, as tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from docagent_rl.lab.eval.report.grid import MARK, NOTHING, RULED, Grid, digits, interval_text, p_text
from docagent_rl.lab.eval.report.statistics import (
    DRAWS,
    EXACT,
    FEWEST,
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
from docagent_rl.lab.eval.scoring.scored import Measure, ScoredTrajectory

RIGHT = 0.5
"""A question counts as answered right from here on, where scores are graded."""
MOST = 50
"""Questions that are named in a table; the JSON file names all."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One number of two runs."""

    cell: Cell
    first: float | None
    second: float | None
    gain: Interval
    """Second less first."""
    p: float | None
    """P-value of the difference; `None` of too few documents to tell."""
    least_p: float | None
    """Least p-value that a difference over as many documents can have."""
    corrected: float | None = None
    """The p-value corrected by Holm for all lines of the breakdowns; `None` for the whole."""


@dataclass(frozen=True, slots=True)
class Flip:
    """A question's values in two runs, means over trajectories."""

    question_id: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs over the questions that both have."""

    whole: tuple[Difference, ...]
    """Differences of each measure, the headline first."""
    parts: tuple[Difference, ...]
    """Differences of the headline by line of the breakdowns."""
    won: int
    """Questions whose headline value is higher in the second run."""
    lost: int
    tied: int
    gained: tuple[Flip, ...]
    """Questions that only the second run answers right."""
    given_up: tuple[Flip, ...]
    """Questions that only the first run answers right."""
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    clashing: tuple[str, ...]
    """Questions of one id about different documents; left out."""


def compare(
    first: Sequence[ScoredTrajectory],
    second: Sequence[ScoredTrajectory],
    measures: Sequence[Measure],
    rows: Rows = lambda _: (),
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Comparison:
    """Compare the trajectories of two runs over one benchmark whose right answers are known.

    The headline is the first measure; `rows` has the lines of breakdowns of the first run's trajectories;
    `draws` counts resamples of documents, and random ways to change sides.
    """
    homes = [{each.question_id: each.document for each in run} for run in (first, second)]
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

    among = {
        measure.name: by_question(ours, measure).keys() & by_question(theirs, measure).keys()
        for measure in measures
    }
    a, b = (sums_of(trajectories, cells, rows_of, among) for trajectories in (ours, theirs))
    gains = gain_intervals(a, b, draws=draws, seed=seed)
    tests = p_values(a, b, draws=draws, seed=seed)
    found = [
        Difference(cell, finite(one), finite(other), gain, p, least_p(gain.documents, draws))
        for cell, one, other, gain, p in zip(cells, a.combine(), b.combine(), gains, tests, strict=True)
    ]
    whole, parts = found[: len(measures)], found[len(measures) :]
    corrected = holm([part.p for part in parts])
    values = by_question(ours, measures[0]), by_question(theirs, measures[0])
    pairs = [Flip(key, *(each[key] for each in values)) for key in sorted(among[measures[0].name])]
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


def paired_tables(
    found: Comparison,
    first: str,
    second: str,
    title: str,
    ruled: Collection[str] = (),
    judges: Sequence[str] = ("", ""),
) -> list[Grid]:
    """Return the tables of a comparison of two runs, by their names, over the benchmark of a title.

    `ruled` has the names of measures that the embedded rule judge stands in for, in either run; `judges` has
    the judges of each run's headline, empty where nobody has to judge.
    """
    head = (first, second, "second less first")
    headline = _titled(found.whole[0], ruled) if found.whole else NOTHING
    judged = []
    if judges[0] != judges[1]:
        by = f"{first} by {judges[0] or 'nobody'} and {second} by {judges[1] or 'nobody'}"
        judged = [f"{by} judged: the difference is that of the judges, too, and neither is better"]
    notes = [
        f"{headline}: {second} is higher on {found.won:,} questions, {first} on {found.lost:,}, "
        f"and {found.tied:,} are equal",
        *([_test(found.whole[0])] if found.whole else []),
        *judged,
        *_missing(found, first, second),
        *([RULED] if any(each.cell.measure.name in ruled for each in found.whole) else []),
    ]
    grids = [
        Grid(
            f"{title}: {second} against {first}",
            ("number", *head, "questions", "documents", "p"),
            tuple((_titled(d, ruled), *_cells(d), p_text(d.p)) for d in found.whole),
            tuple(notes),
        )
    ]
    if found.parts:
        grids.append(
            Grid(
                f"{title}: {headline}, {second} against {first}, by line",
                ("by", "line", *head, "questions", "documents", "p", "p by Holm"),
                tuple((*d.cell.row, *_cells(d), p_text(d.p), p_text(d.corrected)) for d in found.parts),
                ("p by Holm: corrected for all lines of this table",),
            )
        )
    for name, flips in (
        (f"only {second} is right", found.gained),
        (f"only {first} is right", found.given_up),
    ):
        if flips:
            rows = [(each.question_id, f"{each.first:.2f}", f"{each.second:.2f}") for each in flips[:MOST]]
            more = (f"{len(flips) - MOST:,} more in report.json",) if len(flips) > MOST else ()
            above = f"{title}: {headline}, {name} ({len(flips):,})"
            grids.append(Grid(above, ("question", first, second), tuple(rows), more))
    return grids


def _titled(difference: Difference, ruled: Collection[str]) -> str:
    measure = difference.cell.measure
    return f"{measure.title}{MARK if measure.name in ruled else ''}"


def _cells(difference: Difference) -> tuple[str, ...]:
    unit, gain = difference.cell.measure.unit, difference.gain
    sides = (digits(difference.first, unit), digits(difference.second, unit))
    return (*sides, interval_text(gain, unit, sign=True), f"{gain.questions:,}", f"{gain.documents:,}")


def _test(difference: Difference) -> str:
    documents, least = difference.gain.documents, difference.least_p
    if least is None:
        return f"p: none; of fewer than {FEWEST} documents ({documents} here) no difference is beyond chance"
    how = "all ways" if documents <= EXACT else "random ways"
    return f"p: documents change sides, {how}; of {documents:,} documents the least p is {least:.2g}"


def _missing(found: Comparison, first: str, second: str) -> list[str]:
    notes = []
    for name, ids in (
        (f"left out, only in {first}", found.only_first),
        (f"left out, only in {second}", found.only_second),
        ("left out, of one id and about different documents", found.clashing),
    ):
        if ids:
            shown_ids = ", ".join(ids[:MOST]) + (", ..." if len(ids) > MOST else "")
            notes.append(f"{name}: {len(ids):,} questions: {shown_ids}")
    return notes
