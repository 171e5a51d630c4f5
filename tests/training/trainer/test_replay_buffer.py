from __future__ import annotations

import math
from collections import Counter
from types import SimpleNamespace

import pytest
import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.training.agent_loop.output import TrajectoryOutcome
from docagent_rl.training.trainer.replay_buffer import GroupFilter, filter_by_trajectory, pause
from tests.training.trainer.conftest import replay_buffer


def played(reward: float, outcome: float | None = None, **metrics: float) -> TrajectoryOutcome:
    term = {} if outcome is None else {"reward/outcome": outcome}
    return TrajectoryOutcome(False, reward, "answered", term | metrics)


DOWN = TrajectoryOutcome(True, 0.0, "infrastructure: judge down")


@pytest.mark.parametrize(
    ("metric", "trajectories", "shared"),
    [
        ("reward", [played(0.5), played(0.5)], 0.5),
        ("reward", [played(0.1 + 0.2), played(0.3)], pytest.approx(0.3)),
        ("reward", [played(0.5), played(0.50001)], None),
        # a masked trajectory is no reward of zero
        ("reward", [played(0.5), played(0.5), DOWN], 0.5),
        ("reward", [played(0.0), played(1.0), DOWN], None),
        # one that counts has nothing to be compared with
        ("reward", [played(1.0), DOWN], pytest.approx(math.nan, nan_ok=True)),
        ("reward", [played(1.0)], None),
        ("reward/outcome", [played(0.1, 1.0), played(0.9, 1.0)], 1),
        ("reward/outcome", [played(0.1, 1.0), played(0.1, 0.0)], None),
        # the third does not report it, so that it cannot make a difference
        ("reward/outcome", [played(0.0, 1.0), played(0.0, 1.0), played(0.0, turns=2.0)], 1),
    ],
)
def test_what_a_group_shares(metric, trajectories, shared):
    assert GroupFilter(metric, patience=3).shared(trajectories) == shared


def test_a_term_that_no_trajectory_has_is_refused():
    with pytest.raises(UserError, match=r"metric=reward/outcome.*reward, turns"):
        GroupFilter("reward/outcome", patience=3).shared([played(0.0, turns=2.0), played(1.0, turns=3.0)])


def test_a_service_that_is_down_ends_the_run():
    judged = GroupFilter("reward", patience=3)
    for _ in range(2):
        assert math.isnan(judged.shared([DOWN, DOWN]))
    judged.shared([played(1.0), played(0.0)])
    for _ in range(2):
        judged.shared([DOWN, DOWN])
    with pytest.raises(InfrastructureError, match=r"infrastructure: judge down \(3\)"):
        judged.shared([DOWN, DOWN])


def test_outcomes_travel_with_the_rows():
    made = Trajectory("u", 0, 1, "train", {}, "alden", end="answered", reward=0.5)
    made.metrics = {"reward/outcome": 1.0}
    assert TrajectoryOutcome.read(TrajectoryOutcome.of(made).fields()) == played(0.5, 1.0)
    made.status, made.end, made.error = Status.MASKED.value, "infrastructure", "judge down"
    made.reward = 0.0
    assert TrajectoryOutcome.read(TrajectoryOutcome.of(made).fields()) == DOWN
    assert TrajectoryOutcome.read({"reward_extra_info": {}}) is None


def test_the_buffer_of_verl_asks_for_trajectories(queue, monkeypatch):
    """Finished groups: one whose trajectories are equal, the first of three rows, and one whose are not."""
    made = replay_buffer(filter_groups_metric="reward")
    rewards = {f"x_0_{row}": 1.0 for row in range(3)} | {"x_1_0": 1.0, "y_0_0": 1.0, "y_1_0": 0.0}
    queue.rows = {key: {"extra_fields": played(reward).fields()} for key, reward in rewards.items()}
    made.finished_keys["train"] = {"x", "y"}
    made.partitions["train"] = {key: {} for key in rewards}
    filter_by_trajectory(made, patience=4)
    assert made._dapo_filtered_keys("train") == ({"x"}, Counter({1.0: 1}))
    assert made._dapo_filtered_keys("val") == (set(), Counter())
    # each group is looked at once
    monkeypatch.setattr(tq, "kv_batch_get", None)
    assert made._dapo_filtered_keys("train")[0] == {"x"}


def test_other_buffers_are_left_alone():
    own = SimpleNamespace(filter_groups_metric="reward", _dapo_filtered_keys=print)
    filter_by_trajectory(own, patience=1)
    assert own._dapo_filtered_keys is print
    plain = ReplayBuffer("sync", None, None, "drop", None)
    filter_by_trajectory(plain, patience=1)
    assert "_dapo_filtered_keys" not in vars(plain)


@pytest.mark.parametrize(("looked", "wanted"), [(0.0, 0.05), (0.001, 0.05), (0.02, 0.38), (1.0, 2.0)])
def test_looking_takes_little_of_the_time(looked, wanted):
    assert pause(looked, 2.0) == pytest.approx(wanted)
