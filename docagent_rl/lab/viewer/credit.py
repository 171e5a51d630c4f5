"""The credit of a session's tokens, split over its turns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.rollout.credit import SIMILARITIES, TOKENS, CreditRow, StepCredit, credit_file, read_credit

_SPO_PLAIN = {"std": "none", "scope": "group", "row_weight": "none"}
"""Options of SPO with which an advantage is a reward less a baseline, and nothing else."""
_KEPT = 64
"""Groups whose credit is kept in memory."""


@dataclass(frozen=True, slots=True)
class SessionCredit:
    """What an estimator made of a session.

    Args:
        estimator: its name.
        rows: of the session, in order.
        mates: of its group, by number of the session: the rows.
    """

    estimator: str
    rows: Sequence[CreditRow]
    mates: Sequence[int] = ()

    @property
    def advantage(self) -> float | None:
        """The mean over all sampled tokens."""
        values = [float(v) for row in self.rows for v in row.lists.get("advantages", ())]
        return fmean(values) if values else None

    def turns(self, turns: Sequence[Mapping[str, Any]]) -> list[dict[str, list[float]] | None]:
        """The numbers of each turn's tokens; `None` where rows and turns do not fit."""
        rows = {row.row: row for row in self.rows}
        begins: Counter[int] = Counter()
        found: list[dict[str, list[float]] | None] = []
        for turn in turns:
            place, count = int(turn.get("row", 0)), len(turn.get("token_ids") or ())
            row = rows.get(place)
            begin, end = begins[place], begins[place] + count
            begins[place] = end
            if row is None or len(row.lists.get("advantages", ())) < end:
                found.append(None)
                continue
            found.append({name: row.lists[name][begin:end].tolist() for name in TOKENS if name in row.lists})
        return found

    def described(self, turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What the estimator saw, ready for JSON: turn values and advantages, the group's baseline."""
        likeness = next((row.lists[SIMILARITIES] for row in self.rows if SIMILARITIES in row.lists), None)
        return {
            "estimator": self.estimator,
            "advantage": self.advantage,
            "baseline": None,
            "turns": [_of_turn(own) for own in self.turns(turns)],
            "similarities": None
            if likeness is None
            else {str(mate): float(value) for mate, value in zip(self.mates, likeness, strict=False)},
        }


def baseline(
    estimator: str,
    options: Mapping[str, Any],
    advantage: float | None,
    rewards: Mapping[int, float],
    session: int,
) -> float | None:
    """What a session's reward was compared with; `None` where an estimator knows no such number.

    Args:
        estimator: its name.
        options: of the estimator (`docagent.advantage.options`).
        advantage: of the session.
        rewards: of the sessions of the group that counted, by number.
        session: which of them.
    """
    if session not in rewards:
        return None
    others = [reward for number, reward in rewards.items() if number != session]
    if estimator == "rloo" or (estimator == "session_grpo" and options.get("loo")):
        return fmean(others) if others else None
    if estimator in ("grpo", "session_grpo"):
        return fmean(rewards.values())
    plain = all(str(options.get(name, default)) == default for name, default in _SPO_PLAIN.items())
    if estimator == "spo" and plain and advantage is not None:
        return rewards[session] - advantage
    return None


def session_credit(run_dir: Path, step: int, uid: str, session: int) -> SessionCredit | None:
    """The credit of a session; `None` where none is stored, or what is stored is damaged."""
    known = _group(credit_file(run_dir, step), uid)
    if known is None:
        return None
    rows = known.of(uid, session)
    if not rows:
        return None
    mates = sorted({row.session for row in known.rows})
    return SessionCredit(known.estimator, rows, mates)


def _group(path: Path, uid: str) -> StepCredit | None:
    try:
        changed = path.stat().st_mtime_ns
    except OSError:
        return None
    return _read(path, uid, changed)


@lru_cache(maxsize=_KEPT)
def _read(path: Path, uid: str, changed: int) -> StepCredit | None:
    """Of a file as it was at a time."""
    try:
        return read_credit(path, uid=uid)
    except UserError:
        return None


def _of_turn(lists: Mapping[str, list[float]] | None) -> dict[str, float | None]:
    """What a turn was worth before it, and what it was credited with."""
    if not lists or not lists.get("advantages"):
        return {"value": None, "advantage": None}
    values = lists.get("values")
    return {"value": values[0] if values else None, "advantage": fmean(lists["advantages"])}
