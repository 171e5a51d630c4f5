"""Advantages of stored sessions."""

import numpy as np
import pytest
from omegaconf import OmegaConf

from docagent_rl.config import AdvantageConfig
from docagent_rl.errors import UserError
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.rescoring.credit import Crediting, Rows, turn_advantages
from docagent_rl.training.trainer.texts import digest


def session(uid, number, *turns):
    """Turns as (row, tokens, reward)."""
    made = [
        TrajectoryTurn(f"turn {n}", "end_of_turn", [1] * tokens, [0.0] * tokens, reward=reward, row=row)
        for n, (row, tokens, reward) in enumerate(turns)
    ]
    reward = sum(turn.reward for turn in made)
    return Trajectory(
        uid=uid, session=number, step=1, split="train", record={}, system="s", turns=made, reward=reward
    )


def algorithm(name, **more):
    return OmegaConf.create({"adv_estimator": name, "gamma": 1.0, "lam": 1.0, **more})


def test_rows_hold_rewards_on_the_last_tokens_of_their_turns():
    sessions = [session("a", 0, (0, 2, 0.5), (0, 0, 0.25), (1, 3, 1.0)), session("b", 0, (0, 1, -1.0))]
    rows = Rows.of([digest(each, AdvantageConfig().text) for each in sessions])
    assert rows.keys == ["a_0_0", "a_0_1", "b_0_0"]
    assert rows.rewards.tolist() == [[0, 0.75, 0], [0, 0, 1.0], [-1.0, 0, 0]]
    assert rows.turn_index.tolist() == [[0, 0, -1], [0, 0, 0], [0, -1, -1]]
    assert rows.starts == [[(0, 0, 2), None, (1, 0, 3)], [(2, 0, 1)]]


@pytest.mark.parametrize(("name", "row"), [("grpo", 0), ("session_grpo", 0), ("grpo", 1)])
def test_grpo_by_hand(name, row):
    """Also of sessions of several rows."""
    rewards = [0.0, 1.0, 0.5, 0.5]
    sessions = [session("a", n, (0, 2, 0.0), (row, 3, reward)) for n, reward in enumerate(rewards)]
    found = turn_advantages(sessions, algorithm(name), AdvantageConfig())
    wanted = (np.array(rewards) - 0.5) / np.std(rewards, ddof=1)
    assert np.array(found) == pytest.approx(np.stack([wanted] * 2, axis=1), rel=1e-4)


def test_sessions_are_compared_by_the_embedder():
    embedder = {"function": "tests.training.rescoring.test_credit:vectors"}
    settings = AdvantageConfig.model_validate({"embedder": embedder, "options": {}})
    sessions = [session("a", n, (0, 2, float(n))) for n in range(3)]
    found = Crediting(OmegaConf.create({"algorithm": algorithm("spo")}), settings).turns(sessions)
    assert len(found) == 3
    assert found[0][0] < 0 < found[2][0]


def vectors(texts):
    return np.eye(len(texts), 4, dtype=np.float32) + 0.1


def test_what_is_not_stored_is_missed():
    sessions = [session("a", 0, (0, 2, 1.0))]
    with pytest.raises(UserError, match="turn_gae"):
        turn_advantages(sessions, algorithm("turn_gae"), AdvantageConfig())
    with pytest.raises(UserError, match="adv_estimator=nobody"):
        turn_advantages(sessions, algorithm("nobody"), AdvantageConfig())
    for name, possible in (("turn_gae", False), ("gae", False), (None, False), ("grpo", True)):
        run = OmegaConf.create({"algorithm": {"adv_estimator": name}})
        assert Crediting(run, AdvantageConfig()).possible is possible
