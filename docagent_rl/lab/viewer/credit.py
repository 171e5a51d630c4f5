"""The credit of a trajectory's tokens, divided among its turns."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.credit import SIMILARITIES, TOKENS, CreditRow, credit_file, read_credit


@dataclass(frozen=True, slots=True)
class TrajectoryCredit:
    """The numbers that an estimator assigned to a trajectory."""

    estimator: str
    rows: Sequence[CreditRow]
    group: Sequence[int] = ()
    """Numbers of all trajectories in its group."""

    @property
    def advantage(self) -> float | None:
        """The mean over all sampled tokens."""
        given = np.concatenate([row.lists.get("advantages", ()) for row in self.rows])
        return float(given.mean(dtype=float)) if len(given) else None

    def turns(self, turns: Sequence[Mapping[str, Any]]) -> list[dict[str, list[float]] | None]:
        """Return the numbers of each turn's tokens; `None` if rows and turns do not match."""
        rows = {row.row: row for row in self.rows}
        begins: Counter[int] = Counter()
        found: list[dict[str, list[float]] | None] = []
        for turn in turns:
            place = int(turn.get("row", 0))
            count = len(turn.get("token_ids") or ())
            begin = begins[place]
            begins[place] = end = begin + count
            lists = rows[place].lists if place in rows else {}
            fits = place in rows and len(lists.get("advantages", ())) >= end
            cut = {name: lists[name][begin:end].tolist() for name in TOKENS if name in lists}
            found.append(cut if fits else None)
        return found

    def described(self, turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return values and advantages by turn, and similarities to the group's trajectories,
        JSON-ready.
        """
        similarities = next(
            (row.lists[SIMILARITIES] for row in self.rows if SIMILARITIES in row.lists), None
        )
        pairs = (
            None
            if similarities is None
            else zip(map(str, self.group), map(float, similarities), strict=False)
        )
        return {
            "estimator": self.estimator,
            "advantage": self.advantage,
            "turns": [
                {"value": (own.get("values") or [None])[0], "advantage": fmean(own["advantages"])}
                if own and own.get("advantages")
                else {"value": None, "advantage": None}
                for own in self.turns(turns)
            ],
            "similarities": None if pairs is None else dict(pairs),
        }


def trajectory_credit(
    run_dir: Path, step: int, uid: str, trajectory: int
) -> TrajectoryCredit | None:
    """Return the credit of a trajectory; `None` if none is stored, or the file is damaged."""
    try:
        known = read_credit(credit_file(run_dir, step), uid=uid)
    except UserError:
        return None
    if known is None or not (rows := known.of(uid, trajectory)):
        return None
    return TrajectoryCredit(known.estimator, rows, sorted({row.trajectory for row in known.rows}))


def mean_advantages(path: Path) -> dict[tuple[str, int], float | None]:
    """Return the mean advantages of a step's trajectories, by group and number; empty if the file
    cannot be read.
    """
    try:
        known = read_credit(path)
    except UserError:
        return {}
    # rows are written in this order
    groups = groupby(known.rows if known else (), attrgetter("uid", "trajectory"))
    return {key: TrajectoryCredit("", list(rows)).advantage for key, rows in groups}
