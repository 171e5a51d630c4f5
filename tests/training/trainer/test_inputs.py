import pytest
import torch
from verl.trainer.ppo.core_algos import get_adv_estimator_fn

from docagent_rl.advantages import Advantages
from docagent_rl.advantages.registry import _ESTIMATORS
from docagent_rl.base.errors import UserError
from docagent_rl.rollout.trajectory import Trajectory, TrajectoryTurn
from docagent_rl.training.trainer import estimators
from docagent_rl.training.trainer.inputs import RowKeys, TermRewards, steps_of


def test_keys_are_split_from_the_right():
    keys = RowKeys.parse(["a_b_1_0", "a_b_0_0", "a_b_1_1", "c_0_0"])
    assert keys.trajectory.tolist() == [0, 1, 0, 2]
    assert keys.row.tolist() == [0, 0, 1, 0]
    assert keys.group.tolist() == [0, 0, 0, 1]
    assert list(keys.first) == [0, 1, 3]


def sample(*turns: TrajectoryTurn) -> Trajectory:
    return Trajectory("u", 0, 1, "train", {}, "alden", turns=list(turns))


def turn(row: int, terms: dict[str, float], *token_terms, ids=(1,)) -> TrajectoryTurn:
    made = TrajectoryTurn("", "end_of_turn", list(ids), [], terms=terms, row=row)
    made.token_terms = list(token_terms)
    return made


def test_terms_stand_on_the_last_token_of_their_turn_or_on_their_own():
    trajectory = sample(
        turn(0, {"format": 1.0}),
        turn(0, {"format": -1.0, "penalty": -0.6}, ("penalty", 0, 2, -0.6)),
        turn(1, {"format": 0.5}),
    )
    turn_index = torch.tensor([[0, 0, -1, 1, 1, 1], [0, -1, -1, -1, -1, -1]])
    terms = TermRewards([trajectory, trajectory], torch.tensor([0, 1]), turn_index)
    assert list(terms) == ["format", "penalty"]
    assert terms["format"].tolist() == [[0, 1, 0, 0, 0, -1], [0.5, 0, 0, 0, 0, 0]]
    torch.testing.assert_close(
        terms["penalty"], torch.tensor([[0, 0, 0, -0.3, -0.3, 0], [0.0] * 6])
    )
    with pytest.raises(KeyError):
        terms["answer"]


def test_a_turn_without_tokens_passes_its_terms_on_to_an_earlier_row():
    trajectory = sample(turn(0, {"format": 1.0}), turn(-1, {"format": 0.5}, ids=()))
    terms = TermRewards([trajectory], torch.tensor([0]), torch.tensor([[0, 0, -1]]))
    assert terms["format"].tolist() == [[0, 1.5, 0]]


def test_steps_are_counted_over_all_rows_of_a_trajectory():
    """One row has two turns, and some turns' rows were dropped."""
    made = sample(*(turn(row, {}) for row in (0, 0, -1, 1)))
    turn_index = torch.tensor([[0, 0, -1, 1], [0, -1, -1, -1]])
    steps = steps_of([made, made], torch.tensor([0, 1]), turn_index).tolist()
    assert steps == [[0, 0, -1, 1], [3, -1, -1, -1]]


def test_the_bound_computation_runs_where_verl_calls():
    estimators.install_estimators()
    rewards, mask = torch.ones(1, 2, dtype=torch.bfloat16), torch.ones(1, 2)
    bridge = get_adv_estimator_fn("spo")
    with estimators.computing(lambda r, m: Advantages((r * 2).float(), r.float())):
        advantages, returns = bridge(
            token_level_rewards=rewards, response_mask=mask, config=None, index=[1]
        )
    assert advantages.tolist() == [[2, 2]]
    assert advantages.dtype == returns.dtype == torch.bfloat16
    with pytest.raises(UserError):
        bridge(token_level_rewards=rewards, response_mask=mask)


def test_a_name_of_verls_own_estimator_is_refused(monkeypatch):
    monkeypatch.setitem(_ESTIMATORS, "rloo", estimators.our_estimator("spo"))
    with pytest.raises(UserError, match="rloo"):
        estimators.install_estimators()
