"""DAPO's filter of groups without a learning signal, for verl's replay buffer.

verl's own filter (`algorithm.filter_groups`) compares the rows of a group. But a trajectory may
have several rows, whose sums may differ although the trajectories are equal, and a masked
trajectory has no reward, which is not the same as a reward of 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader, distinct

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer


REWARD = "reward"
"""verl's name for the trajectory's reward among the metrics."""
TOLERANCE = 1e-6
"""Relative difference below which two metrics, sums of float32 rewards, count as equal."""


@dataclass
class GroupFilter:
    """Selects the finished groups to drop; it replaces verl's method.

    A group is dropped if fewer than two of its trajectories count, or if all that count have the
    same value of `metric`. A trajectory without the metric (for example, recall without gold pages)
    does not count. `metric` is `reward`, or a metric of the environment such as `reward/outcome`.
    After `patience` completely masked groups in a row the run ends, because replacing them would
    never end while a service is down.
    """

    metric: str
    patience: int
    reader: TrajectoryReader
    _masked: list[str] = field(default_factory=list)
    """The reasons of the completely masked groups since the last other group."""

    def __call__(self, buffer: ReplayBuffer, partition_id: str) -> tuple[set[str], Counter]:
        """Return the ids of the groups to drop, and how many of them have which value.

        Raises:
            InfrastructureError: too many groups in a row are completely masked.
            UserError: no trajectory has the metric, or a row comes from another agent loop.
        """
        if partition_id == "val":
            return set(), Counter()
        finished = buffer.finished_keys[partition_id]
        known = buffer._dapo_classification_cache[partition_id]
        for uid in known.keys() - finished:
            del known[uid]
        new = finished - known.keys()
        keys = [key for key in buffer.partitions[partition_id] if key.rsplit("_", 2)[0] in new]
        rows = self.reader.fetch_rows(keys, partition_id)
        if len(rows) < len(keys):
            raise UserError(
                "algorithm.filter_groups: some rows come from an agent loop other than docagent; "
                "set trainer.v1.trainer_mode=sync"
            )
        groups: dict[str, list[TrajectoryDigest]] = defaultdict(list)
        for trajectory in distinct(rows):
            groups[trajectory.uid].append(trajectory)
        for uid in sorted(new):
            known[uid] = self.shared(groups.get(uid, ()))
        dropped = {uid: value for uid, value in known.items() if value is not None}
        return set(dropped), Counter(dropped.values())

    def shared(self, trajectories: Sequence[TrajectoryDigest]) -> float | None:
        """Return the value that all trajectories of a group share; None if they differ.

        NaN means that there are fewer than two trajectories to compare.
        """
        counting = [trajectory for trajectory in trajectories if not trajectory.masked]
        if counting:
            self._masked.clear()
        else:
            first = next(iter(trajectories), None)
            self._masked.append(
                f"{first.end}: {first.error}" if first else "no trajectory was returned"
            )
        if len(self._masked) >= self.patience:
            commonest = Counter(self._masked).most_common(3)
            reasons = ", ".join(f"{reason} ({count})" for reason, count in commonest)
            raise InfrastructureError(
                f"algorithm.filter_groups: all trajectories of {len(self._masked)} groups in a row "
                f"are masked: {reasons}"
            )
        values = self._values(counting)
        if values and len(trajectories) == 1:
            return None  # rollout.n=1: there are no groups
        if len(values) < 2:
            return math.nan
        spread = max(values) - min(values)
        return values[0] if spread <= TOLERANCE * max(1.0, *map(abs, values)) else None

    def _values(self, counting: Sequence[TrajectoryDigest]) -> list[float]:
        if self.metric == REWARD:
            return [trajectory.reward for trajectory in counting]
        values = [s.metrics[self.metric] for s in counting if self.metric in s.metrics]
        if counting and not values:
            names = sorted({name for trajectory in counting for name in trajectory.metrics})
            raise UserError(
                f"algorithm.filter_groups.metric={self.metric}: no trajectory of a group has this "
                f"metric; use one of {', '.join([REWARD, *names])}"
            )
        return values


def filter_by_trajectory(buffer: ReplayBuffer, patience: int, reader: TrajectoryReader) -> None:
    """Make a replay buffer of verl compare trajectories, if it filters groups."""
    metric = getattr(buffer, "filter_groups_metric", None)
    if metric is not None:
        filtered: Any = partial(GroupFilter(metric, patience, reader), buffer)
        buffer._dapo_filtered_keys = filtered
