from __future__ import annotations

import math
from collections import Counter, defaultdict
from types import SimpleNamespace

import pytest
import transfer_queue as tq
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.training.agent_loop.output import SessionOutcome
from docagent_rl.training.trainer.group_filter import GroupFilter, filter_by_session, sessions_of


def played(reward: float, **metrics: float) -> SessionOutcome:
    return SessionOutcome(False, reward, "answered", metrics)


DOWN = SessionOutcome(True, 0.0, "infrastructure: judge down")


@pytest.fixture
def judged() -> GroupFilter:
    return GroupFilter("reward", patience=3)


def test_equal_sessions_go(judged):
    assert judged.shared([played(0.5), played(0.5)]) == 0.5
    assert judged.shared([played(0.1 + 0.2), played(0.3)]) == pytest.approx(0.3)
    assert judged.shared([played(0.5), played(0.50001)]) is None


def test_a_masked_session_is_no_reward_of_zero(judged):
    assert judged.shared([played(0.5), played(0.5), DOWN]) == 0.5
    assert judged.shared([played(0.0), played(1.0), DOWN]) is None


def test_one_session_that_counts_has_nothing_to_be_compared_with(judged):
    assert math.isnan(judged.shared([played(1.0), DOWN]))
    assert judged.shared([played(1.0)]) is None


def test_terms_by_name():
    outcome = GroupFilter("reward/outcome", patience=3)
    assert (
        outcome.shared([played(0.1, **{"reward/outcome": 1.0}), played(0.9, **{"reward/outcome": 1.0})]) == 1
    )
    assert (
        outcome.shared([played(0.1, **{"reward/outcome": 1.0}), played(0.1, **{"reward/outcome": 0.0})])
        is None
    )
    # the third session does not report it, so that it cannot make a difference
    some = [
        played(0.0, **{"reward/outcome": 1.0}),
        played(0.0, **{"reward/outcome": 1.0}),
        played(0.0, turns=2.0),
    ]
    assert outcome.shared(some) == 1
    with pytest.raises(UserError, match=r"metric=reward/outcome.*reward, turns"):
        outcome.shared([played(0.0, turns=2.0), played(1.0, turns=3.0)])


def test_a_service_that_is_down_ends_the_run(judged):
    for _ in range(2):
        assert math.isnan(judged.shared([DOWN, DOWN]))
    judged.shared([played(1.0), played(0.0)])
    for _ in range(2):
        judged.shared([DOWN, DOWN])
    with pytest.raises(InfrastructureError, match=r"infrastructure: judge down \(3\)"):
        judged.shared([DOWN, DOWN])


def test_rows_of_a_session_are_one_outcome():
    keys = ["a_b_0_0", "a_b_0_1", "a_b_0_2", "a_b_1_0"]
    groups = sessions_of(keys, [played(0.5)] * 3 + [played(0.5)])
    assert [session.reward for session in groups["a_b"]] == [0.5, 0.5]


def test_outcomes_travel_with_the_rows():
    session = Trajectory(
        "u", 0, 1, "train", {}, "alden", end="answered", reward=0.5, metrics={"reward/f": 1.0}
    )
    assert SessionOutcome.read(SessionOutcome.of(session).fields()) == played(0.5, **{"reward/f": 1.0})
    session.status, session.end, session.error = Status.MASKED.value, "infrastructure", "judge down"
    session.reward = 0.0
    assert SessionOutcome.read(SessionOutcome.of(session).fields()) == DOWN
    assert SessionOutcome.read({"reward_extra_info": {}}) is None


def buffer(groups: dict[str, list[list[SessionOutcome]]]) -> tuple[ReplayBuffer, dict[str, SessionOutcome]]:
    """A replay buffer of verl with finished groups; the rows of each session."""
    made = ReplayBuffer("sync", None, None, "drop", None, refill_fn=print, filter_groups_metric="reward")
    rows = {
        f"{uid}_{session}_{row}": outcome
        for uid, sessions in groups.items()
        for session, outcomes in enumerate(sessions)
        for row, outcome in enumerate(outcomes)
    }
    made.finished_keys["train"] = set(groups)
    made.partitions["train"] = {key: {} for key in rows}
    return made, rows


def test_the_buffer_of_verl_asks_for_sessions(monkeypatch):
    made, rows = buffer({"x": [[played(1.0)] * 3, [played(1.0)]], "y": [[played(1.0)], [played(0.0)]]})

    def get(keys, partition_id, select_fields):
        return defaultdict(list, extra_fields=[SimpleNamespace(data=rows[key].fields()) for key in keys])

    monkeypatch.setattr(tq, "kv_batch_get", get)
    filter_by_session(made, patience=4)
    assert made._dapo_filtered_keys("train") == ({"x"}, Counter({1.0: 1}))
    assert made._dapo_filtered_keys("val") == (set(), Counter())
    # each group is looked at once
    monkeypatch.setattr(tq, "kv_batch_get", None)
    assert made._dapo_filtered_keys("train")[0] == {"x"}


def test_other_buffers_are_left_alone():
    own = SimpleNamespace(filter_groups_metric="reward", _dapo_filtered_keys=print)
    filter_by_session(own, patience=1)
    assert own._dapo_filtered_keys is print
    plain = ReplayBuffer("sync", None, None, "drop", None)
    filter_by_session(plain, patience=1)
    assert "_dapo_filtered_keys" not in vars(plain)
