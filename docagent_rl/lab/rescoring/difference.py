"""What another way of paying changes: rewards, terms, order within groups, and credit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from docagent_rl.lab.rescoring.repaid import Repaid
from docagent_rl.rollout.trajectory import Trajectory

_SAME = 1e-9
"""Rewards that differ by less are equal."""


@dataclass(frozen=True, slots=True)
class Payment:
    """What a session earned and what it earns, without its turns.

    Args:
        uid: of its group in its step.
        session: its number in the group.
        step: of the trainer.
        question_id: of what was asked.
        before: `reward`, and the environment's own numbers of its terms.
        after: likewise.
        same: it was shown the same and ended alike.
    """

    uid: str
    session: int
    step: int
    question_id: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    same: bool

    @classmethod
    def of(cls, repaid: Repaid) -> Payment:
        """Of a session that was said again."""
        old = repaid.before
        sides = _totals(old), _totals(repaid.after)
        return cls(old.uid, old.session, old.step, str(old.question_id), *sides, repaid.went.same)

    @property
    def change(self) -> float:
        """Of the reward."""
        return self.after["reward"] - self.before["reward"]


@dataclass(frozen=True, slots=True)
class TermChange:
    """A reward term over all sessions.

    Args:
        name: of the term, or `reward` for what a session earns.
        before: mean; None where no session had it.
        after: likewise.
        changed: share of sessions in which it differs.
    """

    name: str
    before: float | None
    after: float | None
    changed: float


@dataclass(frozen=True, slots=True)
class GroupChange:
    """What becomes of groups of sessions of one question.

    Args:
        groups: of two sessions and more.
        flat_before: groups whose sessions all earn the same, so that nothing is learned from them.
        flat_after: likewise.
        agreement: mean over groups that are flat neither before nor after of Kendall's tau-b of the sessions'
            rewards; None: there is none.
        best_changed: share of the groups whose best session is no longer among the best.
    """

    groups: int
    flat_before: int
    flat_after: int
    agreement: float | None
    best_changed: float


@dataclass(frozen=True, slots=True)
class CreditChange:
    """What becomes of the advantages of turns.

    Args:
        turns: with sampled tokens.
        before: mean of their sizes.
        after: likewise.
        flipped: share of turns that were pushed up and are pushed down now, or the other way round.
        correlation: of the advantages, Pearson's; None where one side does not vary.
    """

    turns: int
    before: float
    after: float
    flipped: float
    correlation: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """All of it.

    Args:
        sessions: that were paid again.
        same: share of them that were shown the same and ended alike.
        terms: `reward` first.
        groups: by question.
        credit: None where no estimator is named.
    """

    sessions: int
    same: float
    terms: tuple[TermChange, ...]
    groups: GroupChange
    credit: CreditChange | None = None


Turns = Sequence[Sequence[float]]
"""Mean advantages by session and turn."""


def difference(
    payments: Sequence[Payment], before: Turns | None = None, after: Turns | None = None
) -> Difference:
    """What changes.

    Args:
        payments: of sessions before and after, at least one.
        before: their advantages.
        after: likewise; turns that are not said again have none.
    """
    credit = None if before is None or after is None else _credit(before, after)
    return Difference(
        len(payments), fmean(each.same for each in payments), _terms(payments), _groups(payments), credit
    )


def _terms(payments: Sequence[Payment]) -> tuple[TermChange, ...]:
    sides = [(each.before, each.after) for each in payments]
    names = dict.fromkeys(name for pair in sides for side in pair for name in side)
    return tuple(_term(name, sides) for name in names)


def _totals(session: Trajectory) -> dict[str, float]:
    """What a session earns, and the environment's own numbers of its terms."""
    terms = {name.partition("/")[2]: v for name, v in session.metrics.items() if name.startswith("reward/")}
    return {"reward": session.reward, **terms}


def _term(name: str, sides: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> TermChange:
    old, new = ([pair[side].get(name) for pair in sides] for side in (0, 1))
    changed = fmean(not _equal(a, b) for a, b in zip(old, new, strict=True))
    return TermChange(name, _mean(old), _mean(new), changed)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _equal(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) < _SAME


def _groups(payments: Sequence[Payment]) -> GroupChange:
    groups: dict[tuple[int, str], list[Payment]] = defaultdict(list)
    for each in payments:
        groups[each.step, each.uid].append(each)
    pairs = [
        (np.array([e.before["reward"] for e in group]), np.array([e.after["reward"] for e in group]))
        for group in groups.values()
        if len(group) > 1
    ]
    flat = [tuple(bool(np.ptp(side) < _SAME) for side in pair) for pair in pairs]
    agreements = [kendall(*pair) for pair, sides in zip(pairs, flat, strict=True) if not any(sides)]
    moved = [not _best(old) & _best(new) for old, new in pairs]
    return GroupChange(
        groups=len(pairs),
        flat_before=sum(sides[0] for sides in flat),
        flat_after=sum(sides[1] for sides in flat),
        agreement=fmean(agreements) if agreements else None,
        best_changed=fmean(moved) if moved else 0.0,
    )


def kendall(first: np.ndarray, second: np.ndarray) -> float:
    """Kendall's tau-b of two sequences that both vary: 1 for the same order, -1 for the opposite.

    Args:
        first: (n,)
        second: (n,)
    """
    upper = np.triu_indices(len(first), 1)
    a, b = (np.sign(_rounded(x)[:, None] - _rounded(x)[None, :])[upper] for x in (first, second))
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def _rounded(values: np.ndarray) -> np.ndarray:
    return np.round(values.astype(float), 9)


def _best(rewards: np.ndarray) -> set[int]:
    return set(np.flatnonzero(rewards >= rewards.max() - _SAME).tolist())


def _credit(before: Turns, after: Turns) -> CreditChange:
    sessions = zip(before, after, strict=True)
    pairs = [pair for old, new in sessions for pair in zip(old, new, strict=False) if any(pair)]
    if not pairs:
        return CreditChange(0, 0.0, 0.0, 0.0, None)
    old, new = np.array(pairs, dtype=float).T
    varies = len(pairs) > 1 and old.std() > _SAME and new.std() > _SAME
    return CreditChange(
        turns=len(pairs),
        before=float(np.abs(old).mean()),
        after=float(np.abs(new).mean()),
        flipped=float((old * new < 0).mean()),
        correlation=float(np.corrcoef(old, new)[0, 1]) if varies else None,
    )
