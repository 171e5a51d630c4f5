"""The evidence funnel over sessions of the index: where those that are wrong were lost."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.filters import FIELDS, Pair, condition
from docagent_rl.rollout.evidence import STAGES, Branch, Evidence, Stage

MOST_LOST = 20
"""Sessions that are named of each loss; the filter beside them finds all."""
WORDS = {
    Stage.ALL: ("questions", "Sessions that were played, of questions whose evidence is known."),
    Stage.SOUGHT: ("looked for", "The agent searched, or opened a page."),
    Stage.REACH: ("in reach", "The question itself, as a query, finds every gold page."),
    Stage.FOUND: ("found", "Queries of the agent returned every gold page, or it opened them by number."),
    Stage.SHOWN: ("shown", "They entered the context, as images of their own or as text."),
    Stage.LOOKED: ("looked at", "They could be read: whole, zoomed or as text."),
    Stage.ANSWERED: ("answered", "The session gave an answer."),
    Stage.KEPT: ("kept", "They were still in the context when the agent answered."),
    Stage.RIGHT: ("right", "The answer was right, with the evidence or without."),
}
_BRANCHES = {
    Branch.ZOOMED: ("zoomed", "A crop covered the evidence and showed it larger than the whole page did."),
    Branch.WHOLE: ("read whole", "The page was shown whole, and not only to choose from."),
    Branch.TEXT: ("as text", "Its text was shown, or somebody else read it."),
}
_BY = ("none", *(name for name in ("step", "system", "kind", "dataset", "split", "stage") if name in FIELDS))


@dataclass
class _Group:
    sessions: list[tuple[int, Evidence]] = field(default_factory=list)
    without: int = 0
    right: int = 0
    played: int = 0


def funnel(base: sqlite3.Connection, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Counts by stage.

    Args:
        base: the index.
        pairs: filters, and `by`, what to count apart.

    Raises:
        UserError: a parameter is unknown, or its value.
    """
    by = dict(pairs).get("by") or "none"
    if by not in _BY:
        raise UserError(f"by={by!r}; known are {', '.join(_BY)}")
    where = condition(pairs, ignored={"by"})
    column = "''" if by == "none" else FIELDS[by]
    rows = base.execute(
        f'SELECT {column} AS key, id, stage, reach, "right", branch, mask FROM sessions {where.where} '
        "ORDER BY key, step, uid, session",
        where.values,
    )
    groups: dict[str, _Group] = defaultdict(_Group)
    for row in rows:
        group = groups[str(row["key"])]
        group.played += not row["mask"]
        group.right += bool(row["right"]) and not row["mask"]
        if not row["stage"]:
            group.without += 1
            continue
        group.sessions.append((row["id"], _evidence(row)))
    return {
        "stages": [{"id": stage, "label": name, "about": about} for stage, (name, about) in WORDS.items()],
        "branches": [{"id": way, "label": name, "about": about} for way, (name, about) in _BRANCHES.items()],
        "groups": [_counted("all" if by == "none" else key, group) for key, group in groups.items()],
    }


def counts_of(found: Iterable[Evidence]) -> dict[str, int | None]:
    """How many sessions came to each stage; `None` where that is not known of all."""
    known = list(found)
    numbers: dict[str, int | None] = {}
    for stage in STAGES:
        reached = [each.reached(stage) for each in known]
        numbers[stage.value] = None if None in reached else sum(map(bool, reached))
    return numbers


def lost_at(found: Iterable[tuple[int, Evidence]], counts: Mapping[str, int | None]) -> dict[str, list[int]]:
    """Wrong sessions that came to the stage before and no further, by the stage that they missed."""
    lost: dict[str, list[int]] = {}
    stages = [stage for stage in STAGES if counts[stage.value] is not None]
    for number, stage in enumerate(stages[1:], 1):
        before = stages[number - 1]
        lost[stage.value] = [
            session
            for session, each in found
            if not each.right and each.reached(before) and not each.reached(stage)
        ]
    return lost


def _counted(key: str, group: _Group) -> dict[str, Any]:
    counts = counts_of(evidence for _, evidence in group.sessions)
    lost = lost_at(group.sessions, counts)
    return {
        "key": key,
        "sessions": len(group.sessions),
        "counts": counts,
        "lost": {stage: sessions[:MOST_LOST] for stage, sessions in lost.items()},
        "lost_counts": {stage: len(sessions) for stage, sessions in lost.items()},
        "filters": {stage: _filter(stage, counts) for stage in lost},
        "without": group.without,
        "played": group.played,
        "right": group.right,
        "branches": {
            branch: {
                "sessions": sum(each.branch is branch for _, each in group.sessions),
                "right": sum(each.branch is branch and bool(each.right) for _, each in group.sessions),
            }
            for branch in Branch
        },
        "guessed": sum(evidence.guessed for _, evidence in group.sessions),
    }


def _filter(missed: str, counts: Mapping[str, int | None]) -> str:
    """The link to the sessions of a loss: wrong ones whose last stage lies before it."""
    names = [stage.value for stage in STAGES]
    end = names.index(missed)
    begin = max(place for place in range(end) if counts[names[place]] is not None)
    wrong = "right=0" if counts[Stage.RIGHT] is not None else "right=0&right="
    return "&".join([*(f"stage={name}" for name in names[begin:end]), wrong])


def _evidence(row: sqlite3.Row) -> Evidence:
    def known(value: int | None) -> bool | None:
        return None if value is None else bool(value)

    branch = Branch(row["branch"]) if row["branch"] else None
    return Evidence(Stage(row["stage"]), known(row["reach"]), known(row["right"]), branch)
