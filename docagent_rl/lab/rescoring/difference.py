"""The effect of other rewards on stored trajectories: on terms, on the order within groups, on
credit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from docagent_rl.envs.outcome import Outcome, OutcomeState
from docagent_rl.envs.search_log import mean_known
from docagent_rl.lab.eval.report.grid import NOTHING, TextTable
from docagent_rl.lab.rescoring.stored import Rescored

_SAME = 1e-9
"""Rewards that differ by less are equal."""

Turns = Sequence[Sequence[float]]
"""Mean advantages by trajectory and turn."""


@dataclass(frozen=True, slots=True)
class Change:
    """The rewards of a trajectory before and after, without its turns."""

    uid: str
    """Its group in its step."""
    step: int
    before: Mapping[str, float]
    """`reward`, and the environment's own numbers of its terms."""
    after: Mapping[str, float]
    same: bool
    outcomes: tuple[OutcomeState | None, OutcomeState | None] = (None, None)
    """Whether the answer was right, before and after; `None` where its system does not say."""

    @classmethod
    def of(cls, rescored: Rescored) -> Change:
        """Return the change of a repeated trajectory."""
        sides = [
            {"reward": side.reward}
            | {k.partition("/")[2]: v for k, v in side.metrics.items() if k.startswith("reward/")}
            for side in (rescored.before, rescored.after)
        ]
        old = rescored.before
        new = rescored.after
        outcomes = (_state(old.outcome), _state(new.outcome))
        return cls(old.uid, old.step, *sides, rescored.same, outcomes)


def _state(outcome: Outcome | None) -> OutcomeState | None:
    return None if outcome is None else outcome.state


def difference(
    changes: Sequence[Change], before: Turns | None = None, after: Turns | None = None
) -> dict[str, Any]:
    """Sum up changes of at least one trajectory, and of advantages; turns not repeated have none
    after.

    Returns:
        `trajectories`, their number; `same`, the share with the same observations and end; `terms`,
        `reward` first, each with its `name`, its means `before` and `after` (`None` where no
        trajectory had it) and `changed`, the share of trajectories in which it differs; `outcomes`
        (`_outcomes`); `groups` (`_groups`); `credit` (`_credit`).
    """
    sides = [(each.before, each.after) for each in changes]
    names = dict.fromkeys(name for pair in sides for side in pair for name in side)
    return {
        "trajectories": len(changes),
        "same": fmean(each.same for each in changes),
        "terms": [_term(name, sides) for name in names],
        "outcomes": _outcomes(changes),
        "groups": _groups(changes),
        "credit": None if before is None or after is None else _credit(before, after),
    }


def difference_tables(found: Mapping[str, Any]) -> list[TextTable]:
    """Return tables: terms, outcomes where they are known, groups and credit."""
    note = (
        f"{found['trajectories']:,} trajectories, {_percent(found['same'])} of them shown the same"
    )
    terms = tuple(
        (t["name"], _n(t["before"]), _n(t["after"]), _percent(t["changed"])) for t in found["terms"]
    )
    groups = found["groups"]
    credit = found["credit"]
    rows = (
        ("groups of two or more trajectories", f"{groups['groups']:,}"),
        ("groups whose trajectories all had the same reward before", f"{groups['flat_before']:,}"),
        ("groups whose trajectories all have the same reward after", f"{groups['flat_after']:,}"),
        (
            "rank correlation of rewards within the other groups, Kendall's tau-b",
            _n(groups["agreement"]),
        ),
    )
    head = ("term", "before", "after", "trajectories that change")
    grids = [TextTable("Rewards", head, terms, (note,))]
    if found["outcomes"] is not None:
        grids.append(_outcome_grid(found["outcomes"]))
    grids.append(TextTable("Groups", ("", "number"), rows))
    if credit is not None:
        rows = (
            ("turns with advantages", f"{credit['turns']:,}"),
            ("turns of the other sign", _percent(credit["flipped"])),
            ("correlation", _n(credit["correlation"])),
        )
        grids.append(TextTable("Advantages of turns", ("", "number"), rows))
    return grids


def _term(
    name: str, sides: Sequence[tuple[Mapping[str, float], Mapping[str, float]]]
) -> dict[str, Any]:
    old, new = ([pair[side].get(name) for pair in sides] for side in (0, 1))
    same = (
        a is b if a is None or b is None else abs(a - b) < _SAME
        for a, b in zip(old, new, strict=True)
    )
    means = {"before": mean_known(old), "after": mean_known(new)}
    return {"name": name, **means, "changed": fmean(not each for each in same)}


def _outcomes(changes: Sequence[Change]) -> dict[str, dict[str, int]] | None:
    """Count trajectories by outcome before, and by outcome after; `None` where no trajectory has
    both.
    """
    pairs = Counter(each.outcomes for each in changes if None not in each.outcomes)
    if not pairs:
        return None
    return {old.value: {new.value: pairs[old, new] for new in OutcomeState} for old in OutcomeState}


def _outcome_grid(counts: Mapping[str, Mapping[str, int]]) -> TextTable:
    head = ("answers", *(f"{new.value} after" for new in OutcomeState))
    rows = [
        (f"{old.value} before", *(f"{counts[old.value][new.value]:,}" for new in OutcomeState))
        for old in OutcomeState
    ]
    note = (
        "unjudged: the gate of the reward was closed, and nobody asked whether the answer is right"
    )
    return TextTable("Outcomes", head, tuple(rows), (note,))


def _groups(changes: Sequence[Change]) -> dict[str, Any]:
    """Return what becomes of the `groups` of several trajectories of one question, and their
    number.

    Nothing is learned from groups whose rewards are all equal (`flat_before`, `flat_after`).
    `agreement` is the mean of Kendall's tau-b of the rewards over groups that are flat neither
    before nor after.
    """
    groups: dict[tuple[int, str], list[tuple[float, float]]] = defaultdict(list)
    for each in changes:
        groups[each.step, each.uid].append((each.before["reward"], each.after["reward"]))
    pairs = [np.array(group, dtype=float).T for group in groups.values() if len(group) > 1]
    flat = [np.ptp(pair, axis=1) < _SAME for pair in pairs]
    ranked = [pair for pair, sides in zip(pairs, flat, strict=True) if not sides.any()]
    return {
        "groups": len(pairs),
        "flat_before": sum(bool(sides[0]) for sides in flat),
        "flat_after": sum(bool(sides[1]) for sides in flat),
        # equal rewards may differ by rounding
        "agreement": mean_known(
            [float(kendalltau(*np.round(pair, 9)).statistic) for pair in ranked]
        ),
    }


def _credit(before: Turns, after: Turns) -> dict[str, Any]:
    """Return what becomes of the advantages of the `turns` with sampled tokens.

    `flipped` is the share of turns with the other sign, `correlation` Pearson's, `None` where one
    side does not vary.
    """
    trajectories = zip(before, after, strict=True)
    pairs = [pair for old, new in trajectories for pair in zip(old, new, strict=False) if any(pair)]
    old, new = np.array(pairs or [(0.0, 0.0)], dtype=float).T
    varies = len(pairs) > 1 and old.std() > _SAME and new.std() > _SAME
    return {
        "turns": len(pairs),
        "flipped": float((old * new < 0).mean()),
        "correlation": float(np.corrcoef(old, new)[0, 1]) if varies else None,
    }


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _n(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.4f}"
