"""Comparison of two runs over the questions that both have."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence, Sized
from statistics import fmean
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.eval.report.paired import compare
from docagent_rl.lab.eval.report.statistics import FEWEST
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory, mean
from docagent_rl.lab.viewer.queries import TERM, TERM_VALUE
from docagent_rl.lab.viewer.runs import OpenRun

DRAWS = 2_000
"""Number of resamples of documents."""
_RIGHT = "right"
_COLUMNS = {
    "reward": "reward",
    _RIGHT: "CASE outcome WHEN 'right' THEN 1 WHEN 'wrong' THEN 0 END",
    "turns": "turns",
    "invalid": "invalid",
}
"""Measures with their SQL expressions; an answer that was not judged has no value, and is not
compared.
"""
_REST: dict[str, Any] = {
    **dict.fromkeys(("dataset", "system", "agent", "status", "reason"), ""),
    **{"scored": True, "labels": {}, "groups": []},
}
"""Fields of a scored trajectory that do not matter in a comparison."""
_METHOD = (
    "difference b - a of the means over the questions that both have, averaged over trajectories "
    f"of a question; 95% interval from {DRAWS} resamples of documents, p from swapping the runs "
    "per document"
)


def comparison(
    runs: Sequence[OpenRun], split: str, measure: str, steps: Sequence[int | None]
) -> dict[str, Any]:
    """Compare two runs, or two steps of one run; the result is JSON-ready.

    `same_trajectories` is true if both have the same trajectories with different rewards, which are
    then paired one by one. `same_reward` tells whether both use the same reward; it is `None` if
    that is unknown, or if the measure does not depend on it. The measure is one of `_COLUMNS` or
    `term:<name>`. A step that is not given is the last one; for two steps of one run, the first and
    the last. `unjudged_a` and `unjudged_b` count the answers that were not judged, which are left
    out if the measure is `right`.

    Raises:
        UserError: there is nothing to compare, or no such number.
    """
    one, other = (run.folder for run in runs)
    same = one.same_trajectories(other) and steps == [None, None]
    with runs[0].index() as first, runs[1].index() as second:
        if not same:
            ends = ("min" if one is other else "max", "max")
            sides = zip((first, second), ends, steps, strict=True)
            steps = [_step(base, split, end) if step is None else step for base, end, step in sides]
            if one is other and steps[0] == steps[1]:
                raise UserError(
                    f"both sides are step {steps[0]} of the same run: choose two different steps"
                )
        bases = list(zip((first, second), steps, strict=True))
        ours, theirs = (values_of(base, measure, split, step) for base, step in bases)
        unjudged = [_unjudged(base, split, step) for base, step in bases]
    if measure == _RIGHT:
        _check_judged((one.path.name, other.path.name), (ours, theirs), unjudged)
    if same:
        both = [key for key in ours if key in theirs]
        if not both:
            raise UserError(
                f"the runs have no trajectory of split={split} in common that has this number: "
                "choose another split or measure"
            )
        ours, theirs = ({key: side[key] for key in both} for side in (ours, theirs))
    depends = measure == "reward" or measure.startswith(TERM)
    formulas = [folder.reward and folder.reward.text for folder in (one, other)]
    return {
        "step_a": steps[0],
        "step_b": steps[1],
        "formula_a": formulas[0],
        "formula_b": formulas[1],
        "unjudged_a": unjudged[0],
        "unjudged_b": unjudged[1],
        "same_trajectories": same,
        "same_reward": one.reward == other.reward if depends and all(formulas) else None,
        **_compared(list(ours.values()), list(theirs.values())),
    }


def _compared(
    first: Sequence[ScoredTrajectory], second: Sequence[ScoredTrajectory]
) -> dict[str, Any]:
    """Compare two sides; questions are paired by id, if they are about the same document."""
    found = compare(first, second, [mean("value", "value")], draws=DRAWS, seed=0)
    a = defaultdict(list)
    b = defaultdict(list)
    for questions, side in ((a, first), (b, second)):
        for each in side:
            questions[each.question_id].append(each)
    both = a.keys() & b.keys() - set(found.of_different_documents)
    if not both:
        raise UserError(
            "the runs have no question in common, by id and document: choose other runs or steps"
        )
    whole = found.numbers[0]
    rows: list[dict[str, Any]] = [
        {
            "question_id": key,
            "question": a[key][0].answer,
            "a": fmean(each.values["value"] or 0.0 for each in a[key]),
            "b": fmean(each.values["value"] or 0.0 for each in b[key]),
            "trajectory_a": a[key][0].number,
            "trajectory_b": b[key][0].number,
        }
        for key in both
    ]
    return {
        "pairs": len(rows),
        "mean_a": whole.first,
        "mean_b": whole.second,
        "difference": whole.gain.value,
        "low": whole.gain.low,
        "high": whole.gain.high,
        "p": whole.p,
        "least_p": whole.least_p,
        "fewest_documents": FEWEST,
        "documents": whole.gain.documents,
        "won": found.won,
        "lost": found.lost,
        "tied": found.tied,
        "method": _METHOD,
        "rows": sorted(rows, key=lambda row: (row["b"] - row["a"], row["question_id"])),
    }


def values_of(
    base: sqlite3.Connection, measure: str, split: str, step: int | None
) -> dict[Any, ScoredTrajectory]:
    """Return the trajectories that were played and have a number, by step, group and number, in
    order.

    Without a `step`, all steps are included. In each, `number` is the id in the index, and `answer`
    the question's text.
    """
    if measure.startswith(TERM):
        column = TERM_VALUE
        own = (measure.removeprefix(TERM),)
    elif measure in _COLUMNS:
        column = _COLUMNS[measure]
        own = ()
    else:
        raise UserError(f"measure={measure!r}: choose one of {', '.join(_COLUMNS)}, {TERM}<name>")
    rows = base.execute(
        f"SELECT step, uid, number, id, question_id, question, doc_id, {column} AS value FROM "
        "trajectories "
        "WHERE split = ? AND (? OR step = ?) AND status != 'masked' AND value IS NOT NULL "
        f"ORDER BY {'step, uid, number' if step is None else 'number'}",
        (*own, split, step is None, step),
    )
    return {
        (row["step"], row["uid"], row["number"]): ScoredTrajectory(
            question_id=row["question_id"],
            document=row["doc_id"],
            number=row["id"],
            answer=row["question"],
            values={"value": float(row["value"])},
            **_REST,
        )
        for row in rows
    }


def _unjudged(base: sqlite3.Connection, split: str, step: int | None) -> int:
    """Count the answers that were not judged; without a `step`, in all steps."""
    (count,) = base.execute(
        "SELECT count(*) FROM trajectories WHERE split = ? AND (? OR step = ?) "
        "AND status != 'masked' AND outcome = 'unjudged'",
        (split, step is None, step),
    ).fetchone()
    return count


def _check_judged(names: Sequence[str], sides: Sequence[Sized], unjudged: Sequence[int]) -> None:
    """Raise `UserError` if a side has answers, but none of them was judged."""
    for name, side, count in zip(names, sides, unjudged, strict=True):
        if count and not side:
            raise UserError(
                f"none of the {count} answers of {name} was judged, so it is unknown which are "
                "right: run `docagent-rl rescore` with a variant that judges every answer"
            )


def _step(base: sqlite3.Connection, split: str, end: str) -> int:
    (step,) = base.execute(
        f"SELECT {end}(step) FROM trajectories WHERE split = ?", (split,)
    ).fetchone()
    if step is None:
        raise UserError(f"a run has no trajectories of split={split}: choose the other split")
    return step
