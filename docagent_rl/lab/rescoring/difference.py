"""The effect of other rewards on stored trajectories: on terms, on the order within groups, on credit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.stats import kendalltau

from docagent_rl.lab.eval.report.grid import NOTHING, Grid
from docagent_rl.lab.rescoring.rescored import Rescored
from docagent_rl.rollout.trajectory import Trajectory

MOST = 10
"""Trajectories that are named in a table."""
_SAME = 1e-9
"""Rewards that differ by less are equal."""

Turns = Sequence[Sequence[float]]
"""Mean advantages by trajectory and turn."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rewards of a trajectory on both sides, without its turns.

    Args:
        uid: of its group in its step.
        number: its number in the group.
        step: of the trainer.
        question_id: of its question.
        before: `reward`, and the environment's own numbers of its terms.
        after: likewise.
        same: it was shown the same and ended alike.
    """

    uid: str
    number: int
    step: int
    question_id: str
    before: Mapping[str, float]
    after: Mapping[str, float]
    same: bool

    @classmethod
    def of(cls, rescored: Rescored) -> Change:
        """Return that of a trajectory that was repeated."""
        old, sides = rescored.before, (_totals(rescored.before), _totals(rescored.after))
        return cls(old.uid, old.number, old.step, str(old.question_id), *sides, rescored.same)


@dataclass(frozen=True, slots=True)
class TermChange:
    """A reward term over all trajectories.

    Args:
        name: of the term, or `reward` for the trajectory's reward.
        before: mean; `None` where no trajectory had it.
        after: likewise.
        changed: share of trajectories in which it differs.
    """

    name: str
    before: float | None
    after: float | None
    changed: float


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The groups of several trajectories of one question.

    Args:
        groups: their number.
        flat_before: groups whose rewards are all equal, so that nothing is learned from them.
        flat_after: likewise.
        agreement: mean of Kendall's tau-b of the trajectories' rewards, over groups that are flat neither
            before nor after; `None`: there is none.
        best_changed: share of the groups whose best trajectory is no longer among the best.
    """

    groups: int
    flat_before: int
    flat_after: int
    agreement: float | None
    best_changed: float


@dataclass(frozen=True, slots=True)
class CreditChange:
    """The advantages of turns.

    Args:
        turns: with sampled tokens.
        before: mean of their sizes.
        after: likewise.
        flipped: share of turns whose advantage has the other sign.
        correlation: of the advantages, Pearson's; `None` where one side does not vary.
    """

    turns: int
    before: float
    after: float
    flipped: float
    correlation: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes.

    Args:
        trajectories: that were repeated.
        same: share of them that were shown the same and ended alike.
        terms: `reward` first.
        groups: by question.
        credit: `None` where no estimator is named.
    """

    trajectories: int
    same: float
    terms: tuple[TermChange, ...]
    groups: GroupChange
    credit: CreditChange | None = None


def difference(
    changes: Sequence[Change], before: Turns | None = None, after: Turns | None = None
) -> Difference:
    """Sum up changes.

    Args:
        changes: of at least one trajectory.
        before: advantages of trajectories.
        after: likewise; turns that were not repeated have none.
    """
    sides = [(each.before, each.after) for each in changes]
    names = dict.fromkeys(name for pair in sides for side in pair for name in side)
    return Difference(
        trajectories=len(changes),
        same=fmean(each.same for each in changes),
        terms=tuple(_term(name, sides) for name in names),
        groups=_groups(changes),
        credit=None if before is None or after is None else _credit(before, after),
    )


def grids_of(found: Difference, changes: Sequence[Change]) -> list[Grid]:
    """Return tables: terms, groups, credit, and the trajectories whose rewards change most."""
    note = (
        f"{found.trajectories:,} trajectories, {100 * found.same:.1f} % of them shown the same "
        "and ended alike"
    )
    terms = tuple((t.name, _n(t.before), _n(t.after), f"{100 * t.changed:.1f} %") for t in found.terms)
    groups, credit = found.groups, found.credit
    grids = [
        Grid("Rewards", ("term", "before", "after", "trajectories that change"), terms, (note,)),
        Grid(
            "Groups",
            ("", "number"),
            (
                ("groups of two trajectories and more", f"{groups.groups:,}"),
                ("whose trajectories all earned the same before", f"{groups.flat_before:,}"),
                ("and do after", f"{groups.flat_after:,}"),
                ("order of the trajectories of the others, Kendall's tau-b", _n(groups.agreement)),
                ("groups with another best trajectory", f"{100 * groups.best_changed:.1f} %"),
            ),
        ),
    ]
    if credit is not None:
        rows = (
            ("turns with advantages", f"{credit.turns:,}"),
            ("mean size before", _n(credit.before)),
            ("mean size after", _n(credit.after)),
            ("turns of the other sign", f"{100 * credit.flipped:.1f} %"),
            ("correlation", _n(credit.correlation)),
        )
        grids.append(Grid("Advantages of turns", ("", "number"), rows))
    moved = [(each, each.before["reward"], each.after["reward"]) for each in changes]
    rows = tuple(
        (each.question_id, str(each.step), str(each.number), _n(old), _n(new))
        for each, old, new in sorted(moved, key=lambda row: -abs(row[2] - row[1]))[:MOST]
        if old != new
    )
    head = ("question", "step", "number", "before", "after")
    return [*grids, Grid("Trajectories whose reward changes most", head, rows)] if rows else grids


def _totals(trajectory: Trajectory) -> dict[str, float]:
    terms = {
        name.partition("/")[2]: v for name, v in trajectory.metrics.items() if name.startswith("reward/")
    }
    return {"reward": trajectory.reward, **terms}


def _term(name: str, sides: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> TermChange:
    old, new = ([pair[side].get(name) for pair in sides] for side in (0, 1))
    changed = fmean(not _equal(*pair) for pair in zip(old, new, strict=True))
    return TermChange(name, _mean(old), _mean(new), changed)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _equal(first: float | None, second: float | None) -> bool:
    if first is None or second is None:
        return first is second
    return abs(first - second) < _SAME


def _groups(changes: Sequence[Change]) -> GroupChange:
    groups: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for each in changes:
        groups[each.step, each.uid].append((each.before["reward"], each.after["reward"]))
    pairs = [np.array(group, dtype=float).T for group in groups.values() if len(group) > 1]
    flat = [np.ptp(pair, axis=1) < _SAME for pair in pairs]
    agreements = [
        float(kendalltau(*np.round(pair, 9)).statistic)
        for pair, sides in zip(pairs, flat, strict=True)
        if not sides.any()
    ]
    best = [pair >= pair.max(axis=1, keepdims=True) - _SAME for pair in pairs]
    return GroupChange(
        groups=len(pairs),
        flat_before=sum(bool(sides[0]) for sides in flat),
        flat_after=sum(bool(sides[1]) for sides in flat),
        agreement=fmean(agreements) if agreements else None,
        best_changed=fmean(not (old & new).any() for old, new in best) if best else 0.0,
    )


def _credit(before: Turns, after: Turns) -> CreditChange:
    trajectories = zip(before, after, strict=True)
    pairs = [pair for old, new in trajectories for pair in zip(old, new, strict=False) if any(pair)]
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


def _n(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"
