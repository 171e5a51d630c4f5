"""The evidence funnel over trajectories in the index: at which stage wrong ones were lost."""

import sqlite3
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.lab.viewer.queries import FIELDS, Pair, condition
from docagent_rl.rollout.evidence import STAGES, Branch, Evidence, Stage


def funnel(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Count a link's trajectories by the stage they reached, for each value of the field `by`."""
    by = dict(pairs).get("by") or "none"
    if by not in ("none", *FIELDS):
        raise UserError(f"by={by!r}: choose one of none, {', '.join(FIELDS)}")
    where, values = condition(pairs, ignored={"by"})
    column = "'all'" if by == "none" else FIELDS[by]
    rows = base.execute(
        f"SELECT {column} AS key, stage, reach, outcome, branch, mask FROM trajectories WHERE "
        f"{where} "
        "ORDER BY key",
        values,
    )
    return {
        "groups": [
            _group(str(key), list(own)) for key, own in groupby(rows, lambda row: row["key"])
        ]
    }


def counts_of(found: Sequence[Evidence]) -> dict[str, int | None]:
    """Count the trajectories that reached each stage; `None` if that is not known for all."""
    reached = {stage.value: [each.reached(stage) for each in found] for stage in STAGES}
    return {
        stage: None if None in each else sum(map(bool, each)) for stage, each in reached.items()
    }


def lost_at(found: Sequence[Evidence], counts: Mapping[str, int | None]) -> dict[str, int]:
    """Count wrong trajectories by the stage that they missed, after reaching the one before.

    An answer that was not judged is not known to be wrong. If a system does not report which
    answers are right, every trajectory counts at the stage that its evidence missed.
    """
    return {
        stage: sum(not (each.right or each.unjudged) for each in leaving)
        for stage, leaving in _leaving(found, counts).items()
    }


def _leaving(
    found: Sequence[Evidence], counts: Mapping[str, int | None]
) -> dict[str, list[Evidence]]:
    """Return the trajectories that missed each stage, after reaching the one before."""
    stages = [stage for stage in STAGES if counts[stage.value] is not None]
    return {
        stage.value: [each for each in found if each.reached(before) and not each.reached(stage)]
        for before, stage in pairwise(stages)
    }


def _group(key: str, rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
    found = [_evidence(row) for row in rows if row["stage"]]
    counts = counts_of(found)
    lost = lost_at(found, counts)
    leaving = _leaving(found, counts)
    branches = {branch: [each for each in found if each.branch is branch] for branch in Branch}
    return {
        "key": key,
        "trajectories": len(found),
        "counts": counts,
        "with_evidence": _right_with_evidence(found, counts),
        "lost_counts": lost,
        "right_anyway": {stage: sum(each.right for each in own) for stage, own in leaving.items()},
        "unjudged_at": {
            stage: sum(each.unjudged for each in own) for stage, own in leaving.items()
        },
        "filters": {stage: _filter(stage, counts) for stage in lost},
        "unjudged": sum(each.unjudged for each in found),
        **_outcomes(rows),
        "branches": {branch: _branch(own) for branch, own in branches.items()},
        "guessed": sum(each.guessed for each in found),
    }


def _right_with_evidence(found: Sequence[Evidence], counts: Mapping[str, int | None]) -> int | None:
    """Count the right answers with every gold page in the context; `None` if that is not known."""
    known = counts[Stage.RIGHT] is not None
    return sum(each.stage is Stage.RIGHT for each in found) if known else None


def _branch(found: Sequence[Evidence]) -> dict[str, int]:
    outcomes = {
        "right": sum(each.right for each in found),
        "unjudged": sum(each.unjudged for each in found),
    }
    return {"trajectories": len(found), **outcomes}


def _filter(missed: str, counts: Mapping[str, int | None]) -> str:
    """Return the link to the trajectories of a loss: wrong ones whose last stage is before it."""
    names = [stage.value for stage in STAGES]
    end = names.index(missed)
    begin = max(place for place in range(end) if counts[names[place]] is not None)
    wrong = "outcome=wrong" if counts[Stage.RIGHT] is not None else "outcome=wrong&outcome="
    return "&".join([*(f"stage={name}" for name in names[begin:end]), wrong])


def _outcomes(rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
    """Count the trajectories that were `played`, and their `outcomes`, whatever their evidence."""
    played = [row["outcome"] for row in rows if not row["mask"]]
    outcomes = {state.value: played.count(state.value) for state in OutcomeState}
    return {"played": len(played), "outcomes": outcomes}


def _evidence(row: sqlite3.Row) -> Evidence:
    return Evidence(
        Stage(row["stage"]),
        None if row["reach"] is None else bool(row["reach"]),
        OutcomeState(row["outcome"]) if row["outcome"] else None,
        Branch(row["branch"]) if row["branch"] else None,
    )
