"""DAPO's filter of groups without a signal (`algorithm.filter_groups`), by trajectory.

verl compares the rows of a group. A trajectory may have several rows, whose sums differ where the
trajectories do not, and one that is masked has no reward at all, which is not a reward of 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import transfer_queue as tq

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.training.agent_loop.output import TrajectoryOutcome

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

REWARD = "reward"
"""What verl calls the trajectory's reward among metrics."""

TOLERANCE = 1e-6
"""Relative difference below which two numbers of trajectories are one: sums of float32 rewards."""


@dataclass
class GroupFilter:
    """Says which finished groups go, in the place of verl's method.

    A group goes when fewer than two of its trajectories count, or when all that count have the same number. A
    trajectory that lacks the number (recall without gold pages, say) does not count.

    Args:
        metric: `reward`, or one of the environment's numbers such as `reward/outcome`.
        patience: wholly masked groups in a row after which the run ends: replacing them would never end
            while a service is down.
    """

    metric: str
    patience: int
    _masked: list[str] = field(default_factory=list)
    """Reasons of the wholly masked groups since the last other one."""

    def __call__(self, buffer: ReplayBuffer, partition_id: str) -> tuple[set[str], Counter]:
        """Ids of the groups, and how many of them share which number.

        Raises:
            InfrastructureError: see `patience`.
            UserError: no trajectory reports the metric.
        """
        if partition_id == "val":
            return set(), Counter()
        finished, known = buffer.finished_keys[partition_id], buffer._dapo_classification_cache[partition_id]
        for uid in known.keys() - finished:
            del known[uid]
        new = finished - known.keys()
        keys = [key for key in buffer.partitions[partition_id] if key.split("_")[0] in new]
        groups = trajectories_of(keys, outcomes(keys, partition_id))
        for uid in sorted(new):
            known[uid] = self.shared(groups.get(uid, ()))
        gone = {uid: value for uid, value in known.items() if value is not None}
        return set(gone), Counter(gone.values())

    def shared(self, trajectories: Sequence[TrajectoryOutcome]) -> float | None:
        """The number that makes a group useless, NaN where there is nothing to compare; None if it is useful.

        Raises:
            InfrastructureError: see `patience`.
            UserError: no trajectory reports the metric.
        """
        self._be_patient(trajectories)
        values = self._values([s for s in trajectories if not s.masked])
        if values and len(trajectories) == 1:
            return None  # rollout.n=1: there are no groups
        if len(values) < 2:
            return math.nan
        spread = max(values) - min(values)
        return values[0] if spread <= TOLERANCE * max(1.0, *map(abs, values)) else None

    def _values(self, counting: Sequence[TrajectoryOutcome]) -> list[float]:
        if self.metric == REWARD:
            return [trajectory.reward for trajectory in counting]
        values = [s.metrics[self.metric] for s in counting if self.metric in s.metrics]
        if counting and not values:
            names = sorted({name for trajectory in counting for name in trajectory.metrics})
            raise UserError(
                f"algorithm.filter_groups.metric={self.metric}: no trajectory of a group reports it; "
                "there are "
                f"{', '.join([REWARD, *names])}"
            )
        return values

    def _be_patient(self, trajectories: Sequence[TrajectoryOutcome]) -> None:
        if not all(trajectory.masked for trajectory in trajectories):
            self._masked.clear()
            return
        self._masked += [trajectories[0].reason if trajectories else "no trajectory was returned"]
        if len(self._masked) >= self.patience:
            reasons = ", ".join(f"{reason} ({n})" for reason, n in Counter(self._masked).most_common(3))
            raise InfrastructureError(
                f"algorithm.filter_groups: every trajectory of {len(self._masked)} groups in a row is "
                "masked: "
                f"{reasons}"
            )


def trajectories_of(
    keys: Sequence[str], found: Iterable[TrajectoryOutcome]
) -> Mapping[str, Sequence[TrajectoryOutcome]]:
    """One outcome a trajectory, by group.

    Args:
        keys: verl's keys `{uid}_{trajectory}_{index}`.
        found: the outcome of each row's trajectory.
    """
    by_trajectory: dict[tuple[str, str], TrajectoryOutcome] = {}
    for key, outcome in zip(keys, found, strict=True):
        uid, trajectory, _ = key.rsplit("_", 2)
        by_trajectory[uid, trajectory] = outcome
    groups: dict[str, list[TrajectoryOutcome]] = defaultdict(list)
    for (uid, _), outcome in by_trajectory.items():
        groups[uid].append(outcome)
    return groups


def outcomes(keys: Sequence[str], partition_id: str) -> list[TrajectoryOutcome]:
    """What rows say of their trajectories.

    Raises:
        UserError: a row is from another agent loop.
    """
    if not keys:
        return []
    data = tq.kv_batch_get(keys=list(keys), partition_id=partition_id, select_fields=["extra_fields"])
    found = [TrajectoryOutcome.read(getattr(value, "data", value)) for value in list(data["extra_fields"])]
    ours = [outcome for outcome in found if outcome is not None]
    if len(ours) < len(found):
        raise UserError(
            "algorithm.filter_groups: there are rows of another agent loop than docagent; "
            "use trainer.v1.trainer_mode=sync"
        )
    return ours


def filter_by_trajectory(buffer: Any, patience: int) -> None:
    """Let a replay buffer of verl compare trajectories; one of a user's own is left alone.

    Args:
        buffer: verl's, changed in place where it filters groups.
        patience: see `GroupFilter`.
    """
    # imported late: it loads the trainer modes, which import this module
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    metric = getattr(buffer, "filter_groups_metric", None)
    if isinstance(buffer, ReplayBuffer) and metric is not None:
        buffer._dapo_filtered_keys = partial(GroupFilter(metric, patience), buffer)
