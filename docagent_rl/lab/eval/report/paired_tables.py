"""Tables of a paired comparison."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from docagent_rl.lab.eval.report.grid import NOTHING, Grid
from docagent_rl.lab.eval.report.paired import Comparison, Difference, Flip
from docagent_rl.lab.eval.report.statistics import EXACT, FEWEST
from docagent_rl.lab.eval.report.tables import MARK, RULED, digits, p_text, shown

MOST = 50
"""Questions that are named in a table; the JSON file names all."""


def paired_tables(
    found: Comparison,
    first: str,
    second: str,
    title: str,
    ruled: Collection[str] = (),
    judges: Sequence[str] = ("", ""),
) -> list[Grid]:
    """Return the tables of a comparison of two runs over one benchmark.

    Args:
        found: the comparison.
        first: name of the first run.
        second: of the second.
        title: of the benchmark.
        ruled: names of measures that the embedded rule judge stands in for, in either run.
        judges: who judged the headline of each run; empty where nobody has to.
    """
    head = (first, second, "second less first")
    headline = _titled(found.whole[0], ruled) if found.whole else NOTHING
    notes = [
        f"{headline}: {second} is higher on {found.won:,} questions, {first} on {found.lost:,}, "
        f"and {found.tied:,} are equal",
        *([_test(found.whole[0])] if found.whole else []),
        *_judged(judges, first, second),
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
            grids.append(_flips(f"{title}: {headline}, {name} ({len(flips):,})", flips, (first, second)))
    return grids


def _titled(difference: Difference, ruled: Collection[str]) -> str:
    measure = difference.cell.measure
    return f"{measure.title}{MARK if measure.name in ruled else ''}"


def _cells(difference: Difference) -> tuple[str, ...]:
    unit, gain = difference.cell.measure.unit, difference.gain
    sides = (digits(difference.first, unit), digits(difference.second, unit))
    return (*sides, shown(gain, unit, sign=True), f"{gain.questions:,}", f"{gain.documents:,}")


def _test(difference: Difference) -> str:
    documents, least = difference.gain.documents, difference.least_p
    if least is None:
        return f"p: none; of fewer than {FEWEST} documents ({documents} here) no difference is beyond chance"
    how = "all ways" if documents <= EXACT else "random ways"
    return f"p: documents change sides, {how}; of {documents:,} documents the least p is {least:.2g}"


def _judged(judges: Sequence[str], first: str, second: str) -> list[str]:
    if len(set(judges)) == 1:
        return []
    by = [f"{run} by {judge or 'nobody'}" for run, judge in zip((first, second), judges, strict=True)]
    return [f"{' and '.join(by)} judged: the difference is that of the judges, too, and neither is better"]


def _flips(title: str, flips: Sequence[Flip], runs: tuple[str, str]) -> Grid:
    rows = tuple((flip.question_id, f"{flip.first:.2f}", f"{flip.second:.2f}") for flip in flips[:MOST])
    more = (f"{len(flips) - MOST:,} more in report.json",) if len(flips) > MOST else ()
    return Grid(title, ("question", *runs), rows, more)


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
