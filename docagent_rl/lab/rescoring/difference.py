"""The effect of other rewards on stored trajectories: on reward terms, on the order within groups
and on advantages.
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
"""Rewards that differ by less count as equal."""

Turns = Sequence[Sequence[float]]
"""Mean advantages by trajectory and turn."""


@dataclass(frozen=True, slots=True)
class Change:
    """A trajectory's rewards before and after, without its turns."""

    uid: str
    """The trajectory's group within its step."""
    step: int
    before: Mapping[str, float]
    """`reward`, and the values of its terms by the environment's own names."""
    after: Mapping[str, float]
    same: bool
    outcomes: tuple[OutcomeState | None, OutcomeState | None] = (None, None)
    """The correctness of the answer, before and after; `None` if the system does not report it."""

    @classmethod
    def of(cls, rescored: Rescored) -> Change:
        """Return the change of a rescored trajectory."""
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
    """Summarize the changes of at least one trajectory, and of its advantages.

    Turns that were not repeated have no advantages in `after`.

    Returns:
        `trajectories`, their number; `same`, the share with the same observations and end; `terms`,
        `reward` first, each with its `name`, its means `before` and `after` (`None` if no
        trajectory had the term) and `changed`, the share of trajectories in which it differs;
        `outcomes` (`_outcomes`); `groups` (`_groups`); `credit` (`_credit`).
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
    """Return tables of the terms, the outcomes if known, the groups and the advantages."""
    note = (
        f"{found['trajectories']:,} trajectories; {_percent(found['same'])} of them had the same "
        "observations"
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
            ("turns whose advantage changes sign", _percent(credit["flipped"])),
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
    """Count trajectories by their outcomes before and after; `None` if no trajectory has both."""
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
        "unjudged: the reward did not depend on whether the answer is right, so it was not checked"
    )
    return TextTable("Outcomes", head, tuple(rows), (note,))


def _groups(changes: Sequence[Change]) -> dict[str, Any]:
    """Return the effect on `groups`, the trajectories of one question, where there are several.

    A group whose rewards are all equal teaches nothing (`flat_before`, `flat_after`). `agreement`
    is the mean Kendall's tau-b between the rewards before and after, over groups that are flat
    neither before nor after.
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
    """Return the effect on the advantages of the `turns` with sampled tokens.

    `flipped` is the share of turns whose advantage changes sign, `correlation` Pearson's, `None`
    if one side does not vary.
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
