from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bias_card.toy import Toy, ToyCritic
from bias_card.toy_groups import ToyGroups
from docagent_rl.base.errors import UserError
from tests.advantages.batches import checked

probability = st.floats(0.05, 0.95)
pay = st.floats(-3, 3)
toys = st.builds(Toy, probability, probability, pay, pay, pay, pay)


@checked
@given(toys)
def test_gradient_and_scores_are_those_of_the_logits(toy):
    logits = torch.tensor([toy.go_on, toy.good], dtype=torch.float64).logit().requires_grad_()
    p, q = logits.sigmoid()
    chances = torch.stack([1 - p, p * q, p * (1 - q)])
    value = (chances * toy.rewards.sum(-1)).sum()
    torch.testing.assert_close(chances.detach(), toy.probabilities)
    torch.testing.assert_close(torch.autograd.grad(value, logits, retain_graph=True)[0], toy.gradient)
    for ending in range(3):
        (score,) = torch.autograd.grad(chances[ending].log(), logits, retain_graph=True)
        torch.testing.assert_close(score, toy.scores[ending])


def test_the_default_and_its_exact_critic_by_hand():
    assert (Toy().second_mean, Toy().gain) == pytest.approx((1.4, 0.8))
    assert Toy().gradient.tolist() == pytest.approx([0.168, 0.108])
    critic = ToyCritic.exact(Toy(), gamma_turn=0.9)
    assert critic.went_on == pytest.approx(0.4 + 0.9 * 1.4)
    assert critic.start == pytest.approx(0.7 * 1.0 + 0.3 * 1.66)
    assert critic.values.tolist() == [
        pytest.approx([1.198, 1.0, 0, 0]),
        pytest.approx([1.198, 1.66, 1.4, 2.0]),
        pytest.approx([1.198, 1.66, 1.4, 0.5]),
    ]


@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_counted_are_groups_in_every_order(size):
    ordered, counted = ToyGroups.ordered(Toy(), size), ToyGroups.counted(Toy(), size)
    assert len(ordered.endings) == 3**size
    assert float(ordered.probability.sum()) == pytest.approx(1)
    folded: dict[tuple, float] = {}
    for endings, chance in zip(ordered.endings.tolist(), ordered.probability.tolist(), strict=True):
        key = tuple(sorted(endings))
        folded[key] = folded.get(key, 0.0) + chance
    found = {tuple(e): c for e, c in zip(counted.endings.tolist(), counted.probability.tolist(), strict=True)}
    assert found == pytest.approx(folded)


def test_the_batch_of_a_group():
    groups = ToyGroups.ordered(Toy(), 2)
    inputs = groups.inputs(critic=ToyCritic(), similarity=0.6)
    stop, good = groups.endings.flatten().tolist().index(0), groups.endings.flatten().tolist().index(1)
    assert inputs.turn_index[[stop, good]].tolist() == [[0, 0, -1, -1, -1], [0, 0, -1, 1, 1]]
    assert inputs.token_rewards[[stop, good]].tolist() == [[0, 1.0, 0, 0, 0], [0, 0.4, 0, 0, 2.0]]
    assert inputs.values[good].tolist() == [0.9, 1.1, 0, 1.0, 1.7]
    assert inputs.group.tolist() == [k // 2 for k in range(18)]
    assert float(inputs.embeddings[stop] @ inputs.embeddings[good]) == pytest.approx(0.6)
    assert groups.inputs(critic=ToyCritic(), similarity=0.6) is inputs


def test_moments_by_hand():
    groups = ToyGroups.ordered(Toy(), 2)
    # the same advantage for all: the mean score, of mean 0 and variance p (1 - p) / 2 and p q (1 - q) / 2
    mean, variance = groups.moments(torch.ones(*groups.endings.shape, 2, dtype=torch.float64))
    assert mean.tolist() == pytest.approx([0, 0])
    assert variance.tolist() == pytest.approx([0.21 / 2, 0.3 * 0.24 / 2])


@pytest.mark.parametrize("change", [{"go_on": 1.0}, {"good": 0.0}, {"bad_reward": float("inf")}])
def test_bad_toys_and_group_sizes(change):
    (name,) = change
    with pytest.raises(UserError, match=rf"toy\.{name}"):
        Toy(**change)
    for size in (0, 1, 65):
        with pytest.raises(UserError, match=str(size)):
            ToyGroups.enumerate(Toy(), size)
