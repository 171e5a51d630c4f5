"""The horizon lemma on a chain of up to three turns.

Subtracting `mu[l]` for every turn l reached optimises `J - sum_{l >= 2} mu[l] P(T >= l)`, whatever mu is.
The other trajectories of the group are held fixed and the baseline leaves the trajectory out, so mu is
arbitrary.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from docagent_rl.advantages.groups import IndexMean
from docagent_rl.advantages.grpo import TurnBaseline, turn_grpo
from tests.advantages.batches import checked, from_turn_rewards

pay = st.floats(-2, 2)
probability = st.floats(0.05, 0.95)


@dataclass(frozen=True)
class Chain:
    """Go on after turn 1, go on after turn 2; a turn's reward depends on the decisions up to it."""

    go_on: tuple[float, float]
    rewards: tuple[tuple[float, ...], ...]

    def derivatives(self, x: Tensor) -> Tensor:
        """Gradient, by the two logits, of the expectation of x (3,) over the lengths 1, 2, 3."""
        logits = torch.tensor(self.go_on, dtype=torch.float64).logit().requires_grad_()
        value = (self._chances(logits.sigmoid()) * x).sum()
        return torch.autograd.grad(value, logits)[0]

    @property
    def true_gradient(self) -> Tensor:
        return self.derivatives(torch.tensor([sum(r) for r in self.rewards], dtype=torch.float64))

    def expected_gradient(self, others: list[tuple[float, ...]], **options: object) -> Tensor:
        """Over the lengths of the first trajectory of a group whose other members are given."""
        chances = self._chances(torch.tensor(self.go_on, dtype=torch.float64))
        trajectories, group = [], []
        for number, rewards in enumerate(self.rewards):
            trajectories += [list(rewards), *map(list, others)]
            group += [number] * (1 + len(others))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            inputs = from_turn_rewards(trajectories, group=group)
            advantages = turn_grpo(inputs, loo=True, tol=0.0, **options).advantages
        own = advantages[:: 1 + len(others), ::2].double()
        first, second = self.go_on
        scores = [[-first, 0], [1 - first, -second], [1 - first, 1 - second]]
        scores = torch.tensor(scores, dtype=torch.float64)
        return (chances[:, None] * scores * own[:, :2]).sum(0)

    @staticmethod
    def _chances(go_on: Tensor) -> Tensor:
        first, second = go_on
        return torch.stack([1 - first, first * (1 - second), first * second])


def causal(stop: float, go: float, stop_then: float, go_then: float, end: float) -> tuple:
    return (stop,), (go, stop_then), (go, go_then, end)


chains = st.builds(Chain, st.tuples(probability, probability), st.builds(causal, pay, pay, pay, pay, pay))
full = st.lists(st.tuples(pay, pay, pay), min_size=1, max_size=4)
"""Other trajectories that reached every turn."""
any_length = st.lists(st.lists(pay, min_size=1, max_size=3).map(tuple), min_size=1, max_size=4)
biased = pytest.mark.parametrize("baseline", [TurnBaseline.INDEX_SUFFIX, TurnBaseline.INDEX_BROADCAST])


def toll(chain: Chain, others: list[tuple[float, ...]]) -> Tensor:
    """`sum_{l >= 2} mu[l] grad P(T >= l)`, mu being the mean over the others, 0 after their end."""
    mu = [sum(o[k] for o in others if len(o) > k) / len(others) for k in (1, 2)]
    reach = torch.tensor([[0.0, 1, 1], [0, 0, 1]], dtype=torch.float64)
    return mu[0] * chain.derivatives(reach[0]) + mu[1] * chain.derivatives(reach[1])


def close(found: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(found, want, atol=1e-9, rtol=1e-9)


@biased
@checked
@given(chain=chains, others=full, mean=st.sampled_from(IndexMean))
def test_every_turn_reached_is_charged_its_mean(
    baseline: TurnBaseline, chain: Chain, others: list[tuple[float, ...]], mean: IndexMean
) -> None:
    found = chain.expected_gradient(others, baseline=baseline, index_mean=mean)
    close(found, chain.true_gradient - toll(chain, others))


@biased
@checked
@given(chain=chains, others=any_length)
def test_padded_means_count_those_that_ended(
    baseline: TurnBaseline, chain: Chain, others: list[tuple[float, ...]]
) -> None:
    found = chain.expected_gradient(others, baseline=baseline, index_mean=IndexMean.PADDED)
    close(found, chain.true_gradient - toll(chain, others))


@checked
@given(chain=chains, others=any_length)
def test_fixed_horizon_charges_nothing(chain: Chain, others: list[tuple[float, ...]]) -> None:
    close(chain.expected_gradient(others, baseline=TurnBaseline.FIXED_HORIZON), chain.true_gradient)


@checked
@given(chain=chains, others=full)
def test_centred_returns_charge_nothing(chain: Chain, others: list[tuple[float, ...]]) -> None:
    close(chain.expected_gradient(others, baseline=TurnBaseline.RTG_CENTERED), chain.true_gradient)


def test_the_toll_by_hand() -> None:
    chain = Chain((0.5, 0.5), ((1.0,), (0.0, 1.0), (0.0, 0.0, 1.0)))
    others = [(0.0, 0.4, 0.6)]
    # all lengths pay 1: nothing to learn, but turns 2 and 3 are charged 0.4 and 0.6
    assert chain.true_gradient.tolist() == pytest.approx([0, 0])
    found = chain.expected_gradient(others, baseline=TurnBaseline.INDEX_SUFFIX)
    assert found.tolist() == pytest.approx([-0.25 * 0.4 - 0.125 * 0.6, -0.125 * 0.6])
