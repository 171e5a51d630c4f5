"""DAPO's filter of groups without a signal, in verl's replay buffer.

verl's filter (`algorithm.filter_groups`) compares the rows of a group. A trajectory may have
several rows, whose sums differ where the trajectories do not, and one that is masked has no reward
at all, which is not a reward of 0.
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
"""verl's name of the trajectory's reward among metrics."""
TOLERANCE = 1e-6
"""Relative difference below which two numbers of trajectories are one: sums of float32 rewards."""


@dataclass
class GroupFilter:
    """A choice of the finished groups that go, in the place of verl's method.

    A group goes when fewer than two of its trajectories count, or when all that count have the same
    number. A trajectory that lacks the number (recall without gold pages, say) does not count.
    `metric` is `reward`, or one of the environment's numbers such as `reward/outcome`. After
    `patience` wholly masked groups in a row the run ends: replacing them would never end while a
    service is down.
    """

    metric: str
    patience: int
    reader: TrajectoryReader
    _masked: list[str] = field(default_factory=list)
    """Reasons of the wholly masked groups since the last other one."""

    def __call__(self, buffer: ReplayBuffer, partition_id: str) -> tuple[set[str], Counter]:
        """Return ids of the groups, and how many of them share which number.

        Raises:
            InfrastructureError: see `patience`.
            UserError: no trajectory reports the metric, or a row is from another agent loop.
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
                "algorithm.filter_groups: there are rows of another agent loop than docagent; "
                "use trainer.v1.trainer_mode=sync"
            )
        groups: dict[str, list[TrajectoryDigest]] = defaultdict(list)
        for trajectory in distinct(rows):
            groups[trajectory.uid].append(trajectory)
        for uid in sorted(new):
            known[uid] = self.shared(groups.get(uid, ()))
        gone = {uid: value for uid, value in known.items() if value is not None}
        return set(gone), Counter(gone.values())

    def shared(self, trajectories: Sequence[TrajectoryDigest]) -> float | None:
        """Return the number that makes a group useless, NaN with nothing to compare; None if it is
        useful.
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
            reasons = ", ".join(
                f"{reason} ({n})" for reason, n in Counter(self._masked).most_common(3)
            )
            raise InfrastructureError(
                f"algorithm.filter_groups: every trajectory of {len(self._masked)} groups in a row "
                "is "
                f"masked: {reasons}"
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
                f"algorithm.filter_groups.metric={self.metric}: no trajectory of a group reports "
                "it; "
                f"there are {', '.join([REWARD, *names])}"
            )
        return values


def filter_by_trajectory(buffer: ReplayBuffer, patience: int, reader: TrajectoryReader) -> None:
    """Let a replay buffer of verl that filters groups compare trajectories."""
    metric = getattr(buffer, "filter_groups_metric", None)
    if metric is not None:
        filtered: Any = partial(GroupFilter(metric, patience, reader), buffer)
        buffer._dapo_filtered_keys = filtered
