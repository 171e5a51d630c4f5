"""The evidence funnel over trajectories of the index: where wrong ones were lost."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.queries import FIELDS, Pair, condition
from docagent_rl.rollout.evidence import STAGES, Branch, Evidence, Stage

MOST_LOST = 20
"""Trajectories that are named of each loss; the filter beside them finds all."""
WORDS = {
    Stage.ALL: ("questions", "Trajectories that were played, of questions whose evidence is known."),
    Stage.SOUGHT: ("looked for", "The agent searched, or opened a page."),
    Stage.REACH: ("in reach", "The question itself, as a query, finds every gold page."),
    Stage.FOUND: ("found", "Queries of the agent returned every gold page, or it opened them by number."),
    Stage.SHOWN: ("shown", "They entered the context, as images of their own or as text."),
    Stage.LOOKED: ("looked at", "They could be read: whole, zoomed or as text."),
    Stage.ANSWERED: ("answered", "The trajectory gave an answer."),
    Stage.KEPT: ("kept", "They were still in the context when the agent answered."),
    Stage.RIGHT: ("right", "The answer was right, with the evidence or without."),
}
_BRANCHES = {
    Branch.ZOOMED: ("zoomed", "A crop covered the evidence and showed it larger than the whole page did."),
    Branch.WHOLE: ("read whole", "The page was shown whole, and not only to choose from."),
    Branch.TEXT: ("as text", "Its text was shown, or somebody else read it."),
}
_BY = ("none", "step", "system", "kind", "dataset", "split", "stage")


def funnel(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Count the trajectories of a link that came to each stage, for each value of the field `by`.

    Raises:
        UserError: a parameter is unknown, or does not take its value.
    """
    by = dict(pairs).get("by") or "none"
    if by not in _BY:
        raise UserError(f"by={by!r}; known are {', '.join(_BY)}")
    where, values = condition(pairs, ignored={"by"})
    column = "'all'" if by == "none" else FIELDS[by]
    rows = base.execute(
        f'SELECT {column} AS key, id, stage, reach, "right", branch, mask FROM trajectories WHERE {where} '
        "ORDER BY key, step, uid, number",
        values,
    )
    return {
        "stages": [{"id": stage, "label": name, "about": about} for stage, (name, about) in WORDS.items()],
        "branches": [{"id": way, "label": name, "about": about} for way, (name, about) in _BRANCHES.items()],
        "groups": [_group(str(key), list(own)) for key, own in groupby(rows, lambda row: row["key"])],
    }


def counts_of(found: Iterable[Evidence]) -> dict[str, int | None]:
    """Count the trajectories that came to each stage; `None` where that is not known of all."""
    known = list(found)
    reached = {stage.value: [each.reached(stage) for each in known] for stage in STAGES}
    return {stage: None if None in each else sum(map(bool, each)) for stage, each in reached.items()}


def lost_at(found: Sequence[tuple[int, Evidence]], counts: Mapping[str, int | None]) -> dict[str, list[int]]:
    """Return wrong trajectories by the stage that they missed, having come to the one before."""
    stages = [stage for stage in STAGES if counts[stage.value] is not None]
    wrong = [(trajectory, each) for trajectory, each in found if not each.right]
    return {
        stage.value: [trajectory for trajectory, e in wrong if e.reached(before) and not e.reached(stage)]
        for before, stage in pairwise(stages)
    }


def _group(key: str, rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
    found = [(row["id"], _evidence(row)) for row in rows if row["stage"]]
    each = [evidence for _, evidence in found]
    counts = counts_of(each)
    lost = lost_at(found, counts)
    branches = {branch: [one for one in each if one.branch is branch] for branch in Branch}
    return {
        "key": key,
        "trajectories": len(found),
        "counts": counts,
        "lost": {stage: trajectories[:MOST_LOST] for stage, trajectories in lost.items()},
        "lost_counts": {stage: len(trajectories) for stage, trajectories in lost.items()},
        "filters": {stage: _filter(stage, counts) for stage in lost},
        "without": len(rows) - len(found),
        "played": sum(not row["mask"] for row in rows),
        "right": sum(bool(row["right"]) and not row["mask"] for row in rows),
        "branches": {
            branch: {"trajectories": len(own), "right": sum(bool(one.right) for one in own)}
            for branch, own in branches.items()
        },
        "guessed": sum(one.guessed for one in each),
    }


def _filter(missed: str, counts: Mapping[str, int | None]) -> str:
    """Return the link to the trajectories of a loss: wrong ones whose last stage lies before it."""
    names = [stage.value for stage in STAGES]
    end = names.index(missed)
    begin = max(place for place in range(end) if counts[names[place]] is not None)
    wrong = "right=0" if counts[Stage.RIGHT] is not None else "right=0&right="
    return "&".join([*(f"stage={name}" for name in names[begin:end]), wrong])


def _evidence(row: sqlite3.Row) -> Evidence:
    reach, right = (None if row[name] is None else bool(row[name]) for name in ("reach", "right"))
    return Evidence(Stage(row["stage"]), reach, right, Branch(row["branch"]) if row["branch"] else None)
