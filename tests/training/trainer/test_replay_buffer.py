import math
from collections import Counter

import pytest
import transfer_queue as tq

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.training.trainer.replay_buffer import GroupFilter, filter_by_trajectory
from docagent_rl.training.trainer.trajectory_reader import TrajectoryReader
from tests.training.trainer.conftest import replay_buffer


def trajectory(reward=0.0, number=0, uid="x", **more) -> Trajectory:
    return Trajectory(uid, number, 7, "train", {}, "alden", reward=reward, **more)


def played(reward: float, outcome: float | None = None, **metrics: float) -> TrajectoryDigest:
    term = {} if outcome is None else {"reward/outcome": outcome}
    return TrajectoryDigest.of(trajectory(reward, metrics=term | metrics))


MASK = {
    "status": Status.MASKED.value,
    "end": MaskReason.INFRASTRUCTURE.value,
    "error": "judge down",
}
DOWN = TrajectoryDigest.of(trajectory(metrics={"reward/outcome": 9.0}, **MASK))


def group_filter(metric: str) -> GroupFilter:
    return GroupFilter(metric, 3, TrajectoryReader())


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
    assert group_filter(metric).shared(trajectories) == shared


def test_a_term_that_no_trajectory_has_is_refused():
    with pytest.raises(UserError, match=r"metric=reward/outcome.*reward, turns"):
        group_filter("reward/outcome").shared([played(0.0, turns=2.0), played(1.0, turns=3.0)])


def test_a_service_that_is_down_ends_the_run():
    judged = group_filter("reward")
    for _ in range(2):
        assert math.isnan(judged.shared([DOWN, DOWN]))
    judged.shared([played(1.0), played(0.0)])
    for _ in range(2):
        judged.shared([DOWN, DOWN])
    with pytest.raises(InfrastructureError, match=r"infrastructure: judge down \(3\)"):
        judged.shared([DOWN, DOWN])


def test_the_buffer_of_verl_asks_for_trajectories(queue, monkeypatch):
    """There are two finished groups: one has equal trajectories of three rows each, and the other's
    trajectories differ.
    """
    made = replay_buffer(filter_groups_metric="reward")
    queue.put({}, [trajectory(1.0, n) for n in range(2)], rows=3)
    queue.put({}, [trajectory(float(n), n, "y") for n in range(2)])
    made.finished_keys["train"] = {"x", "y"}
    made.partitions["train"] = {key: {} for key in queue.rows}
    filter_by_trajectory(made, 4, TrajectoryReader())
    assert made._dapo_filtered_keys("train") == ({"x"}, Counter({1.0: 1}))
    assert made._dapo_filtered_keys("val") == (set(), Counter())
    # each group is looked at once
    monkeypatch.setattr(tq, "kv_batch_get", None)
    assert made._dapo_filtered_keys("train")[0] == {"x"}


def test_rows_of_another_agent_loop_are_refused(queue):
    made = replay_buffer(filter_groups_metric="reward")
    queue.rows = {"x_0_0": {"extra_fields": {"reward_extra_info": {}}}}
    made.finished_keys["train"], made.partitions["train"] = {"x"}, {"x_0_0": {}}
    filter_by_trajectory(made, 4, TrajectoryReader())
    with pytest.raises(UserError, match="an agent loop other than"):
        made._dapo_filtered_keys("train")
