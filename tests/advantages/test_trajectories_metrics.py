from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from docagent_rl.advantages.inputs import AdvantageInputs, Advantages
from docagent_rl.advantages.trajectories import turn_metrics
from docagent_rl.advantages.turn_gae import turn_gae
from tests.advantages.batches import Shape, batch, build, noise_off_tokens, shapes


def two_trajectories() -> AdvantageInputs:
    """One of two turns, one of one turn; observations hold noise."""
    return batch(
        turns=[[0, 0, -1, 1], [0, -1, -1, -1]],
        rewards=[[0, 0.5, 0, 1.0], [-1.0, 0, 0, 0]],
        values=[[0.1, 0.2, 9, 0.4], [0.6, 9, 9, 9]],
        trajectory=[0, 1],
        group=[0, 0],
    )


def test_by_hand():
    inputs = two_trajectories()
    advantages = torch.tensor([[1.0, 2.0, 0, 5.0], [-3.0, 0, 0, 0]])
    found = turn_metrics(inputs, Advantages(advantages, advantages * 10))
    assert found == pytest.approx(
        {
            "turns/trajectories/1": 2,
            "turns/trajectories/2": 1,
            "turns/reward/1": -0.25,
            "turns/reward/2": 1.0,
            "turns/advantage/1": 0.0,
            "turns/advantage/2": 5.0,
            "turns/advantage_std/1": (14 / 3) ** 0.5,
            "turns/advantage_std/2": 0.0,
            "turns/value/1": 0.4,
            "turns/value/2": 0.4,
            "turns/target/1": -5.0,
            "turns/target/2": 50.0,
        }
    )


def test_no_critic_no_values():
    inputs = replace(two_trajectories(), values=None)
    found = turn_metrics(inputs, Advantages(torch.zeros(2, 4), torch.zeros(2, 4)))
    assert not [name for name in found if "value" in name or "target" in name]


def test_nothing_sampled():
    inputs = replace(two_trajectories(), mask=torch.zeros(2, 4))
    assert turn_metrics(inputs, Advantages(torch.zeros(2, 4), torch.zeros(2, 4))) == {}


@given(shapes())
def test_turns_add_up_whatever_stands_on_other_tokens(shape: Shape):
    inputs = build(shape)
    result = turn_gae(inputs)
    found = turn_metrics(inputs, result)
    assert found == turn_metrics(noise_off_tokens(inputs), result)
    count = [value for name, value in found.items() if name.startswith("turns/trajectories/")]
    assert count == sorted(count, reverse=True)
    rewards = [value for name, value in found.items() if name.startswith("turns/reward/")]
    kept = (inputs.mask & inputs.valid[:, None]) * inputs.token_rewards.double()
    total = sum(n * r for n, r in zip(count, rewards, strict=True))
    assert total == pytest.approx(float(kept.sum()), abs=1e-4)
