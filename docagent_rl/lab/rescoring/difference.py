"""The effect of other rewards on stored trajectories: on terms, on the order within groups, on credit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy.stats import kendalltau

from docagent_rl.lab.eval.report.grid import NOTHING, Grid
from docagent_rl.lab.rescoring.stored import Rescored

MOST = 10
"""Trajectories that are named in a table."""
_SAME = 1e-9
"""Rewards that differ by less are equal."""

Turns = Sequence[Sequence[float]]
"""Mean advantages by trajectory and turn."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rewards of a trajectory before and after, without its turns."""

    uid: str
    """Its group in its step."""
    number: int
    step: int
    question_id: str
    before: Mapping[str, float]
    """`reward`, and the environment's own numbers of its terms."""
    after: Mapping[str, float]
    same: bool

    @classmethod
    def of(cls, rescored: Rescored) -> Change:
        """Return the change of a repeated trajectory."""
        sides = [
            {"reward": side.reward}
            | {k.partition("/")[2]: v for k, v in side.metrics.items() if k.startswith("reward/")}
            for side in (rescored.before, rescored.after)
        ]
        old = rescored.before
        return cls(old.uid, old.number, old.step, str(old.question_id), *sides, rescored.same)


@dataclass(frozen=True, slots=True)
class TermChange:
    """Means of a reward term, or of `reward`, over all trajectories."""

    name: str
    before: float | None
    """`None` where no trajectory had the term."""
    after: float | None
    changed: float
    """Share of trajectories in which it differs."""


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The groups of several trajectories of one question."""

    groups: int
    flat_before: int
    """Groups whose rewards are all equal, so that nothing is learned from them."""
    flat_after: int
    agreement: float | None
    """Mean of Kendall's tau-b of the rewards, over groups that are flat neither before nor after."""
    best_changed: float
    """Share of the groups whose best trajectory is no longer among the best."""


@dataclass(frozen=True, slots=True)
class CreditChange:
    """The advantages of turns with sampled tokens."""

    turns: int
    before: float
    """Mean of their sizes."""
    after: float
    flipped: float
    """Share of turns whose advantage has the other sign."""
    correlation: float | None
    """Pearson's; `None` where one side does not vary."""


@dataclass(frozen=True, slots=True)
class Difference:
    """All changes of the repeated trajectories."""

    trajectories: int
    same: float
    """Share of trajectories with the same observations and end."""
    terms: tuple[TermChange, ...]
    """`reward` first."""
    groups: GroupChange
    credit: CreditChange | None = None
    """`None` where no estimator is named."""


def difference(
    changes: Sequence[Change], before: Turns | None = None, after: Turns | None = None
) -> Difference:
    """Sum up changes of at least one trajectory, and of advantages; turns not repeated have none after."""
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


def _term(name: str, sides: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]) -> TermChange:
    old, new = ([pair[side].get(name) for pair in sides] for side in (0, 1))
    same = (a is b if a is None or b is None else abs(a - b) < _SAME for a, b in zip(old, new, strict=True))
    return TermChange(name, _mean(old), _mean(new), fmean(not each for each in same))


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


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
