import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bias_card.toy import Toy, ToyCritic
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
    torch.testing.assert_close(
        torch.autograd.grad(value, logits, retain_graph=True)[0], toy.gradient
    )
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
