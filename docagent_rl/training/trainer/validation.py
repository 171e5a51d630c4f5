"""What a validation counts: every trajectory that was asked for, played or not.

verl leaves `None` out of its means and trajectories that ended in an exception out of its batch. Either way a
score would rise by what cannot be played, so here such a trajectory is wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import MaskReason
from docagent_rl.training.trainer.summary import PREFIX

REWARD = "reward"
PLAYED_REWARD = "reward_played"
"""The reward over the trajectories that were played; a run is not judged by it."""
PLAYED = "played"
"""Whether a trajectory was played."""


@dataclass(slots=True)
class ValidationTable:
    """The trajectories of a validation, one row each, as verl's `process_validation_metrics` takes them.

    Args:
        sources: data source of each trajectory.
        uids: prompt group of each trajectory.
        columns: values by name; `None` is left out of the means.
        missing: trajectories that were asked for and left no row.
    """

    sources: list[str]
    uids: list[str]
    columns: dict[str, list[Any]] = field(default_factory=dict)
    missing: int = 0


def validation_table(
    sources: Sequence[str],
    uids: Sequence[str],
    columns: Mapping[str, Sequence[Any]],
    trajectories: Sequence[TrajectoryDigest | None],
    expected: Mapping[tuple[str, str], int] | None,
) -> ValidationTable:
    """Every trajectory that was asked for, with the numbers it counts with.

    Args:
        sources: data source of each trajectory that left a row.
        uids: its prompt group.
        columns: verl's values by name, `reward` among them.
        trajectories: what is known of it; `None` for one of another agent loop, whose values stay as they
            are.
        expected: trajectories by data source and prompt group.

    Returns:
        A trajectory that was not played has the reward 0, or what it was charged until then where that is
        less, and so has every reward term. Of its other numbers it has those that the environment gave it,
        which are none unless the trajectory reached its end (`MaskReason.EMPTY`).
    """
    table = ValidationTable(list(map(str, sources)), list(map(str, uids)))
    table.columns = {name: list(values) for name, values in columns.items()}
    rewards = zip(columns[REWARD], trajectories, strict=True)
    table.columns[REWARD] = [_reward(reward, trajectory) for reward, trajectory in rewards]
    table.columns[PLAYED] = [
        float(trajectory is None or not trajectory.masked) for trajectory in trajectories
    ]
    names = {
        name: None for trajectory in trajectories if trajectory is not None for name in trajectory.metrics
    }
    for name in names:
        table.columns[name] = [_number(name, trajectory) for trajectory in trajectories]
    played = zip(table.columns[REWARD], table.columns[PLAYED], strict=True)
    table.columns[PLAYED_REWARD] = [reward if was else None for reward, was in played]
    _add_missing(table, expected or {})
    return table


def mask_report(trajectories: Sequence[TrajectoryDigest | None], missing: int) -> dict[str, float]:
    """How many trajectories of a validation were not played, and why.

    Args:
        trajectories: those that left a row.
        missing: number of those that did not.
    """
    reasons = Counter(
        trajectory.end for trajectory in trajectories if trajectory is not None and trajectory.masked
    )
    reasons[MaskReason.MISSING.value] = missing
    counts = {f"{PREFIX}/masked/{reason.value}": float(reasons[reason.value]) for reason in MaskReason}
    return {**counts, f"{PREFIX}/masked_trajectories": float(sum(reasons.values()))}


def _reward(reward: float, trajectory: TrajectoryDigest | None) -> float:
    if trajectory is None:
        return reward
    if trajectory.masked:
        return min(0.0, sum(turn.reward for turn in trajectory.turns))
    # over all rows: verl takes the last one for the trajectory
    return trajectory.reward


def _number(name: str, trajectory: TrajectoryDigest | None) -> float | None:
    if trajectory is None:
        return None
    value = trajectory.metrics.get(name)
    if trajectory.masked and _is_term(name):
        return min(0.0, value or 0.0)
    return value


def _is_term(name: str) -> bool:
    return name.startswith(f"{REWARD}/")


def _add_missing(table: ValidationTable, expected: Mapping[tuple[str, str], int]) -> None:
    found = Counter(zip(table.sources, table.uids, strict=True))
    wrong = {REWARD: 0.0, PLAYED: 0.0}
    for (source, uid), number in expected.items():
        for _ in range(number - found[source, uid]):
            table.missing += 1
            table.sources.append(source)
            table.uids.append(uid)
            for name, values in table.columns.items():
                values.append(0.0 if _is_term(name) else wrong.get(name))
