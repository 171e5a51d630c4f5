from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages.groups import Std
from docagent_rl.advantages.grpo import TurnBaseline, turn_grpo
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, from_turn_rewards, shapes

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
def test_equals_the_slow_version(shape: Shape, baseline: TurnBaseline, std: Std, loo: bool) -> None:
    inputs = build(shape)
    found = turn_grpo(inputs, baseline=baseline, std=std, loo=loo).advantages
    want = references.turn_grpo(inputs, baseline == TurnBaseline.FIXED_HORIZON, std.value, loo)
    torch.testing.assert_close(found, want, atol=1e-7, rtol=1e-6)


def test_one_std_a_group() -> None:
    spread = torch.tensor([0.6, 1.2, 1.3, 0.6, 0.9]).double().std(unbiased=False)
    found = turn_grpo(E4, std=Std.BIASED).advantages
    torch.testing.assert_close(found, turn_grpo(E4).advantages / (spread + 1e-6))
    equal = from_turn_rewards([[1.0, 0.0], [0.0, 1.0]])
    assert turn_grpo(equal).advantages.any()
    assert not turn_grpo(equal, std=Std.BIASED).advantages.any()


def test_turns_are_chained_across_rows() -> None:
    inputs = batch(
        turns=[[0, -1], [0, 1], [0, -1]],
        rewards=[[4.0, 0], [1.0, 2.0], [0.0, 0]],
        trajectory=[0, 1, 0],
        row=[0, 0, 1],
    )
    # returns-to-go: trajectory 0 has (4, 0), trajectory 1 has (3, 2)
    assert turn_grpo(inputs).advantages.tolist() == [[0.5, 0], [-0.5, 1.0], [-1.0, 0]]
    assert turn_grpo(inputs).returns.tolist() == [[4.0, 0], [3.0, 2.0], [0.0, 0]]
