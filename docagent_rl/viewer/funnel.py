"""The evidence funnel over sessions of the index: where questions are lost."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.errors import UserError
from docagent_rl.rollout.evidence import STAGES, Evidence, Stage
from docagent_rl.viewer.filters import FIELDS, Pair, condition

MOST_LOST = 20
"""Sessions that are named of each loss; the filter beside them finds all."""
WORDS = {
    Stage.ALL: ("questions", "Sessions that were played, of questions whose evidence is known."),
    Stage.REACH: ("in reach", "The question itself, as a query, finds every gold page."),
    Stage.FOUND: ("found", "Queries of the agent returned every gold page, or it opened them by number."),
    Stage.SHOWN: ("shown", "They entered the context, as images of their own or as text."),
    Stage.LOOKED: ("looked at", "A crop covered the evidence, or the page was shown large."),
    Stage.KEPT: ("kept", "They were still in the context when the agent answered."),
    Stage.RIGHT: ("right", "And the answer was right."),
}
_BY = ("none", *(name for name in ("step", "system", "kind", "dataset", "split", "stage") if name in FIELDS))


@dataclass
class _Group:
    sessions: list[tuple[int, Evidence]] = field(default_factory=list)
    without: int = 0
    right: int = 0


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
        f'SELECT {column} AS key, id, stage, reach, "right", mask FROM sessions {where.where} '
        "ORDER BY key, step, uid, session",
        where.values,
    )
    groups: dict[str, _Group] = defaultdict(_Group)
    for row in rows:
        group = groups[str(row["key"])]
        group.right += bool(row["right"]) and not row["mask"]
        if not row["stage"]:
            group.without += 1
            continue
        group.sessions.append((row["id"], _evidence(row)))
    words = ((stage.value, *said) for stage, said in WORDS.items())
    return {
        "stages": [{"id": stage, "label": name, "about": about} for stage, name, about in words],
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
    """Sessions that came to the stage before and no further, by the stage that they missed."""
    lost: dict[str, list[int]] = {}
    stages = [stage for stage in STAGES if counts[stage.value] is not None]
    for number, stage in enumerate(stages[1:], 1):
        before = stages[number - 1]
        lost[stage.value] = [
            session for session, each in found if each.reached(before) and not each.reached(stage)
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
        "right": group.right,
        "guessed": sum(evidence.guessed for _, evidence in group.sessions),
    }


def _filter(missed: str, counts: Mapping[str, int | None]) -> str:
    """The link to the sessions of a loss: those whose last stage lies before it."""
    names = [stage.value for stage in STAGES]
    end = names.index(missed)
    begin = max(place for place in range(end) if counts[names[place]] is not None)
    return "&".join(f"stage={name}" for name in names[begin:end])


def _evidence(row: sqlite3.Row) -> Evidence:
    def known(value: int | None) -> bool | None:
        return None if value is None else bool(value)

    return Evidence(Stage(row["stage"]), known(row["reach"]), known(row["right"]))
