import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages.groups import Std
from docagent_rl.advantages.grpo import TurnBaseline, grpo, outcome_advantages, turn_grpo
from docagent_rl.advantages.trajectories import RowWeight
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, from_turn_rewards, shapes

E3 = torch.tensor([1.6, 0.4, 1.0, 0.0])
stds = st.sampled_from(Std)


@pytest.mark.parametrize(
    ("std", "want"),
    [
        (Std.NONE, [0.85, -0.35, 0.25, -0.75]),
        (Std.BIASED, [1.4021, -0.5774, 0.4124, -1.2372]),
        (Std.UNBIASED, [1.2143, -0.5, 0.3571, -1.0714]),
    ],
)
def test_e3(std: Std, want: list[float]) -> None:
    found = outcome_advantages(E3, torch.zeros(4, dtype=torch.long), std=std)
    assert found.tolist() == pytest.approx(want, abs=1e-4)


@checked
@given(shapes(), stds, st.booleans())
def test_equals_the_slow_version(shape: Shape, std: Std, loo: bool) -> None:
    inputs = build(shape)
    found = grpo(inputs, std=std, loo=loo)
    torch.testing.assert_close(
        found.advantages, references.grpo(inputs, std.value, loo), atol=1e-7, rtol=1e-6
    )


rewards = st.lists(st.integers(-64, 64).map(lambda n: n / 32), min_size=1, max_size=3)


@checked
@given(st.lists(st.lists(rewards, min_size=1, max_size=6), min_size=1, max_size=4), st.booleans())
def test_equals_verl_but_in_groups_of_one(groups: list[list[list[float]]], by_std: bool) -> None:
    """Trajectories have one row; verl gives the only trajectory of a group its reward."""
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    number = [n for n, trajectories in enumerate(groups) for _ in trajectories]
    inputs = from_turn_rewards(
        [trajectory for trajectories in groups for trajectory in trajectories], group=number
    )
    want, _ = compute_grpo_outcome_advantage(
        inputs.token_rewards,
        inputs.mask.double(),
        inputs.group.numpy(),
        norm_adv_by_std_in_grpo=by_std,
    )
    want[torch.tensor([len(groups[n]) == 1 for n in number])] = 0.0
    found = grpo(inputs, std=Std.UNBIASED if by_std else Std.NONE)
    torch.testing.assert_close(found.advantages, want, atol=1e-6, rtol=1e-5)


def test_equal_rewards_give_exact_zeros() -> None:
    inputs = from_turn_rewards([[0.1, 0.2], [0.3], [0.3]])
    found = grpo(inputs)
    assert not found.advantages.any()
    assert found.metrics == {"grpo/singleton_groups": 0.0, "grpo/equal_groups": 1.0}
    assert grpo(inputs, tol=0.0).advantages.any()


def test_a_trajectory_counts_once_however_many_rows_it_has() -> None:
    inputs = batch(
        turns=[[0], [0], [0], [0]],
        rewards=[[1.0], [1.0], [4.0], [0.0]],
        trajectory=[0, 0, 0, 1],
        row=[0, 1, 2, 0],
    )
    found = grpo(inputs, std=Std.NONE)
    assert found.advantages.squeeze(1).tolist() == [3.0, 3.0, 3.0, -3.0]
    assert found.returns.squeeze(1).tolist() == [6.0, 6.0, 6.0, 0.0]
    weighed = grpo(inputs, std=Std.NONE, row_weight=RowWeight.INVERSE)
    assert weighed.advantages.squeeze(1).tolist() == [1.0, 1.0, 1.0, -3.0]


def test_a_spread_as_small_as_eps_halves_the_advantage() -> None:
    rewards = torch.tensor([0.0, 2e-6]).double()
    found = outcome_advantages(rewards, torch.zeros(2, dtype=torch.long), std=Std.BIASED, tol=1e-9)
    assert found.tolist() == pytest.approx([-0.5, 0.5], rel=1e-6)


E4 = from_turn_rewards([[0.6], [0.2, 1.0], [0.0, 0.4, 0.9], [0.6, 0.0], [0.9]])


@pytest.mark.parametrize(
    ("baseline", "second"),
    [
        # returns from turn 2 on: 1.0, 1.3, 0.0
        (TurnBaseline.RTG_CENTERED, [0, 1.0 - 2.3 / 3, 1.3 - 2.3 / 3, -2.3 / 3, 0]),
        (TurnBaseline.FIXED_HORIZON, [0, 1.0 - 0.46, 1.3 - 0.46, -0.46, 0]),
    ],
)
def test_e4(baseline: TurnBaseline, second: list[float]) -> None:
    found = turn_grpo(E4, baseline=baseline)
    assert found.advantages[:, 0].tolist() == pytest.approx([-0.32, 0.28, 0.38, -0.32, -0.02])
    assert found.advantages[:, 2].tolist() == pytest.approx(second)
    third = found.advantages[2, 4].item()
    assert third == pytest.approx(0.0 if baseline == TurnBaseline.RTG_CENTERED else 0.9 * 4 / 5)
    assert found.metrics == {"turn_grpo/singleton_groups": 0.0, "turn_grpo/equal_groups": 0.0}


@checked
@given(shapes(), st.sampled_from(TurnBaseline), st.sampled_from(Std), st.booleans())
def test_turns_equal_the_slow_version(
    shape: Shape, baseline: TurnBaseline, std: Std, loo: bool
) -> None:
    inputs = build(shape)
    found = turn_grpo(inputs, baseline=baseline, std=std, loo=loo).advantages
    want = references.turn_grpo(inputs, baseline == TurnBaseline.FIXED_HORIZON, std.value, loo)
    torch.testing.assert_close(found, want, atol=1e-7, rtol=1e-6)
