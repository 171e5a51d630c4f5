"""Stored runs are rewarded again: their steps, their advantages, and what other rewards change."""

from itertools import product

import numpy as np
import pytest
from omegaconf import OmegaConf

from docagent_rl.base.errors import UserError
from docagent_rl.config import AdvantageConfig
from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.rescoring.difference import Change, difference, difference_tables
from docagent_rl.lab.rescoring.stored import StoredRun
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.stored_credit import Crediting, SampledRows


def trajectory(uid, number, *turns):
    """Return a trajectory with turns given as (row, tokens, reward)."""
    made = [
        TrajectoryTurn(
            f"turn {n}", "end_of_turn", [1] * tokens, [0.0] * tokens, reward=reward, row=row
        )
        for n, (row, tokens, reward) in enumerate(turns)
    ]
    reward = sum(turn.reward for turn in made)
    return Trajectory(
        uid=uid,
        number=number,
        step=1,
        split="train",
        sample={},
        system="s",
        turns=made,
        reward=reward,
    )


def crediting(name, settings=None):
    run = OmegaConf.create({"algorithm": {"adv_estimator": name, "gamma": 1.0, "lam": 1.0}})
    return Crediting(run, settings or AdvantageConfig())


def test_rows_hold_rewards_on_the_last_tokens_of_their_turns():
    trajectories = [
        trajectory("a", 0, (0, 2, 0.5), (0, 0, 0.25), (1, 3, 1.0)),
        trajectory("b", 0, (0, 1, -1.0)),
    ]
    rows = SampledRows.of(
        [TrajectoryDigest.of(each, AdvantageConfig().text) for each in trajectories]
    )
    assert rows.keys == ["a_0_0", "a_0_1", "b_0_0"]
    assert rows.rewards.tolist() == [[0, 0.75, 0], [0, 0, 1.0], [-1.0, 0, 0]]
    assert rows.turn_index.tolist() == [[0, 0, -1], [0, 0, 0], [0, -1, -1]]
    assert rows.spans == [[(0, 0, 2), None, (1, 0, 3)], [(2, 0, 1)]]


@pytest.mark.parametrize(("name", "row"), [("grpo", 0), ("trajectory_grpo", 0), ("grpo", 1)])
def test_grpo_by_hand(name, row):
    rewards = [0.0, 1.0, 0.5, 0.5]
    trajectories = [
        trajectory("a", n, (0, 2, 0.0), (row, 3, reward)) for n, reward in enumerate(rewards)
    ]
    found = crediting(name).turns(trajectories)
    wanted = (np.array(rewards) - 0.5) / np.std(rewards, ddof=1)
    assert np.array(found) == pytest.approx(np.stack([wanted] * 2, axis=1), rel=1e-4)


def test_trajectories_are_compared_by_the_embedder():
    embedder = {"function": "tests.lab.rescoring.test_rescoring:vectors"}
    settings = AdvantageConfig.model_validate({"embedder": embedder, "options": {}})
    trajectories = [trajectory("a", n, (0, 2, float(n))) for n in range(3)]
    found = crediting("spo", settings).turns(trajectories)
    assert len(found) == 3
    assert found[0][0] < 0 < found[2][0]


def vectors(texts):
    return np.eye(len(texts), 4, dtype=np.float32) + 0.1


def test_what_is_not_stored_is_missed():
    trajectories = [trajectory("a", 0, (0, 2, 1.0))]
    with pytest.raises(UserError, match="turn_gae"):
        crediting("turn_gae").turns(trajectories)
    with pytest.raises(UserError, match="adv_estimator=nobody"):
        crediting("nobody")
    for name, possible in (("turn_gae", False), ("gae", False), (None, False), ("grpo", True)):
        assert crediting(name).possible is possible


def test_an_evaluation(tmp_path):
    with pytest.raises(UserError, match=str(tmp_path)):
        StoredRun.open(tmp_path)
    folder = RunFolder(tmp_path / "run")
    folder.begin({"config": {"docagent": {"system": "alden"}}})
    with pytest.raises(UserError, match=str(tmp_path)):
        StoredRun.open(folder.path)
    with folder.writing():
        pass
    stored = StoredRun.open(folder.path)
    assert stored.chosen([3], validation=True) == {"trajectories": folder.trajectories_file}
    assert stored.config.docagent.run_dir == str(folder.path)


def pair(uid, before, after, *, same=True):
    sides = ({"reward": reward, "total": reward} for reward in (before, after))
    return Change(uid, 1, *sides, same)


def test_means_and_shares():
    found = difference([pair("a", 1.0, 0.5), pair("a", 0.0, 0.0), pair("b", 0.5, 0.5, same=False)])
    reward, total = found["terms"]
    assert (reward["name"], total["name"]) == ("reward", "total")
    assert (reward["before"], reward["changed"]) == (0.5, pytest.approx(1 / 3))
    assert reward["after"] == pytest.approx(1 / 3)
    assert found["same"] == pytest.approx(2 / 3)
    assert found["groups"]["groups"] == 1
    assert found["credit"] is None


def test_groups_that_are_flat_and_those_that_turn_round():
    groups = {
        "flat": [(1, 0), (1, 1)],
        "turned": [(0, 3), (1, 2), (2, 1)],
        "kept": [(0, 0), (1, 9)],
    }
    pairs = [pair(name, *each) for name, rewards in groups.items() for each in rewards]
    found = difference(pairs)["groups"]
    assert [found[name] for name in ("groups", "flat_before", "flat_after")] == [3, 1, 0]
    assert found["agreement"] == pytest.approx(0.0)  # -1 and 1


def test_outcomes_are_counted_before_and_after():
    states = [*product(OutcomeState, repeat=2), (OutcomeState.UNJUDGED, OutcomeState.RIGHT)]
    changes = [
        Change("a", 1, {"reward": 0.0}, {"reward": 0.0}, same=True, outcomes=each)
        for each in states
    ]
    found = difference([*changes, pair("b", 0.0, 0.0)])
    assert found["outcomes"] == {
        old.value: {new.value: states.count((old, new)) for new in OutcomeState}
        for old in OutcomeState
    }
    assert found["outcomes"]["unjudged"]["right"] == 2
    (grid,) = (each for each in difference_tables(found) if each.title == "Outcomes")
    assert grid.rows[-1] == ("unjudged before", "2", "1", "1")
    silent = difference([pair("b", 0.0, 0.0)])
    assert silent["outcomes"] is None
    assert "Outcomes" not in [each.title for each in difference_tables(silent)]


def test_credit():
    trajectories = [pair("a", 1, 1), pair("a", 0, 0)]
    found = difference(trajectories, [[1.0, -1.0], [0.5, 0.0]], [[2.0, 1.0], [1.0]])["credit"]
    assert (found["turns"], found["flipped"]) == (3, pytest.approx(1 / 3))
    assert found["correlation"] == pytest.approx(np.corrcoef([1, -1, 0.5], [2, 1, 1])[0, 1])
    assert difference(trajectories, [[0.0], [0.0]], [[0.0], [0.0]])["credit"]["turns"] == 0
