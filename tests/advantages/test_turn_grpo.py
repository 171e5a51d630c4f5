from __future__ import annotations

import warnings

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages.groups import GroupTurns, IndexMean, Std
from docagent_rl.advantages.grpo import TurnBaseline, turn_grpo
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, from_turn_rewards, shapes

E4 = from_turn_rewards([[0.6], [0.2, 1.0], [0.0, 0.4, 0.9], [0.6, 0.0], [0.9]])
BIASED = [TurnBaseline.INDEX_SUFFIX, TurnBaseline.INDEX_BROADCAST, TurnBaseline.MYOPIC]
baselines = st.sampled_from(TurnBaseline)


def quietly(inputs: object, **options: object) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return turn_grpo(inputs, **options).advantages


@pytest.mark.parametrize(
    ("options", "want"),
    [
        ({}, [-0.32, 0.28, 0.38, -0.32, -0.02]),
        ({"baseline": TurnBaseline.FIXED_HORIZON}, [-0.32, 0.28, 0.38, -0.32, -0.02]),
        ({"baseline": TurnBaseline.INDEX_SUFFIX}, [0.14, 0.2733, -0.5267, -0.3267, 0.44]),
        (
            {"baseline": TurnBaseline.INDEX_SUFFIX, "index_mean": IndexMean.PADDED},
            [0.14, 0.46, 0.38, -0.14, 0.44],
        ),
        ({"baseline": TurnBaseline.MYOPIC}, [0.14, -0.26, -0.46, 0.14, 0.44]),
    ],
)
def test_e4_first_turns(options: dict, want: list[float]) -> None:
    assert quietly(E4, **options)[:, 0].tolist() == pytest.approx(want, abs=1e-4)


def test_later_turns_by_hand() -> None:
    second = quietly(E4)[:, 2].tolist()
    # returns from turn 2 on: 1.0, 1.3, 0.0
    assert second == pytest.approx([0, 1.0 - 2.3 / 3, 1.3 - 2.3 / 3, -2.3 / 3, 0])
    assert float(quietly(E4)[2, 4]) == 0.0
    fixed = quietly(E4, baseline=TurnBaseline.FIXED_HORIZON)
    assert fixed[:, 2].tolist() == pytest.approx([0, 1.0 - 0.46, 1.3 - 0.46, -0.46, 0])


@checked
@given(shapes(), baselines, st.sampled_from(IndexMean), st.sampled_from(Std), st.booleans())
def test_equals_the_slow_version(
    shape: Shape, baseline: TurnBaseline, mean: IndexMean, std: Std, loo: bool
) -> None:
    inputs = build(shape)
    options = {"baseline": baseline, "index_mean": mean, "std": std, "loo": loo}
    found = quietly(inputs, **options)
    want = references.turn_grpo(inputs, baseline.value, mean == IndexMean.PADDED, std.value, loo)
    torch.testing.assert_close(found, want, atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("baseline", BIASED)
def test_biased_forms_warn(baseline: TurnBaseline) -> None:
    with pytest.warns(UserWarning, match="rtg_centered"):
        turn_grpo(E4, baseline=baseline)


@pytest.mark.parametrize("baseline", [TurnBaseline.RTG_CENTERED, TurnBaseline.FIXED_HORIZON])
def test_the_others_do_not(baseline: TurnBaseline) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = turn_grpo(E4, baseline=baseline)
    assert found.metrics == {"turn_grpo/singleton_groups": 0.0, "turn_grpo/equal_groups": 0.0}


def test_one_std_a_group() -> None:
    spread = torch.tensor([0.6, 1.2, 1.3, 0.6, 0.9]).double().std(unbiased=False)
    found = quietly(E4, std=Std.BIASED)
    torch.testing.assert_close(found, quietly(E4) / (spread + 1e-6))
    equal = from_turn_rewards([[1.0, 0.0], [0.0, 1.0]])
    assert quietly(equal).any()
    assert not quietly(equal, std=Std.BIASED).any()


def test_turns_are_chained_across_rows() -> None:
    inputs = batch(
        turns=[[0, -1], [0, 1], [0, -1]],
        rewards=[[4.0, 0], [1.0, 2.0], [0.0, 0]],
        trajectory=[0, 1, 0],
        row=[0, 0, 1],
    )
    # returns-to-go: trajectory 0 has (4, 0), trajectory 1 has (3, 2)
    assert quietly(inputs).tolist() == [[0.5, 0], [-0.5, 1.0], [-1.0, 0]]
    assert turn_grpo(inputs).returns.tolist() == [[4.0, 0], [3.0, 2.0], [0.0, 0]]


@pytest.mark.parametrize(("tol", "want"), [(1.0, [1.0, -1.0]), (1.01, [0.0, 0.0])])
def test_a_padded_spread_below_the_tolerance_gives_zeros(tol: float, want: list[float]) -> None:
    options = {"baseline": TurnBaseline.MYOPIC, "index_mean": IndexMean.PADDED, "std": Std.BIASED}
    found = quietly(from_turn_rewards([[2.0], [0.0]]), **options, eps=0.0, tol=tol)
    assert found[:, 0].tolist() == want


def test_turns_of_groups_by_hand() -> None:
    """Two trajectories of two turns and one; a group without trajectories; one of one trajectory."""
    turns = GroupTurns(
        rewards=torch.tensor([1.0, 2.0, 4.0, 8.0]),
        trajectory=torch.tensor([0, 0, 1, 2]),
        ordinal=torch.tensor([0, 1, 0, 0]),
        group=torch.tensor([0, 0, 0, 2]),
        size=torch.tensor([2, 0, 1]),
    )
    assert turns.horizon == 2
    assert turns.padded_mean(turns.rewards).tolist() == [[2.5, 1.0], [0.0, 0.0], [8.0, 0.0]]
    assert turns.sum_onwards(turns.rewards).tolist() == [3.0, 2.0, 4.0, 8.0]
