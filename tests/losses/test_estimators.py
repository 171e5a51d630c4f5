"""Estimators of the KL from log-probs, and the drift of hidden states."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from verl.trainer.ppo.core_algos import kl_penalty

from docagent_rl.losses.config import KlType
from docagent_rl.losses.estimators import clamped, hidden_drift, sampled_kl

SAMPLED = [KlType.K1, KlType.K2, KlType.K3, KlType.K3_PLUS]
log_probs = st.lists(st.floats(-40, 0), min_size=1, max_size=8)


def at(d: float, kind: KlType) -> tuple[float, float]:
    """Return the value and its gradient with respect to the policy's log-prob, at log reference -
    log policy = d.
    """
    own = torch.tensor(-5.0, dtype=torch.float64, requires_grad=True)
    value = sampled_kl(own, own.detach() + d, kind)
    value.backward()
    return value.item(), own.grad.item()


@pytest.mark.parametrize(
    ("kind", "value", "gradient"),
    [
        (KlType.K1, -0.5, 1.0),
        (KlType.K2, 0.125, -0.5),
        (KlType.K3, math.exp(0.5) - 1.5, 1 - math.exp(0.5)),
        (KlType.K3_PLUS, math.exp(0.5) - 1.5, -0.5),
    ],
)
def test_values_and_gradients(kind, value, gradient):
    assert at(0.5, kind) == pytest.approx((value, gradient))


def test_k3_stops_pulling_beyond_its_clamp():
    # e^d - d - 1 = 10 at d = 2.6110
    value, gradient = at(2.5, KlType.K3)
    assert value == pytest.approx(8.6825, abs=1e-4)
    assert gradient == pytest.approx(1 - math.exp(2.5))
    assert at(2.7, KlType.K3) == (10.0, 0.0)
    assert at(2.7, KlType.K3_PLUS) == (10.0, pytest.approx(-2.7))
    own = torch.tensor([-5.0, -5.0, -5.0])
    assert clamped(own, own + torch.tensor([2.6, 2.62, -30.0])).tolist() == [False, True, True]


@given(log_probs, st.floats(-25, 25), st.sampled_from(SAMPLED))
@settings(deadline=None)
def test_equal_to_verl(values, d, kind):
    ours = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    verls = ours.detach().clone().requires_grad_()
    ref = ours.detach() + d
    value, expected = sampled_kl(ours, ref, kind), kl_penalty(verls, ref, kind.value)
    torch.testing.assert_close(value, expected)
    value.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(ours.grad, verls.grad)


def test_reference_has_no_gradient():
    own, ref = torch.tensor([-1.0], requires_grad=True), torch.tensor([-2.0], requires_grad=True)
    sampled_kl(own, ref, KlType.K2).sum().backward()
    assert ref.grad is None
    assert own.grad is not None


def test_exact_needs_more_than_log_probs():
    with pytest.raises(ValueError, match="hidden states"):
        sampled_kl(torch.zeros(1), torch.zeros(1), KlType.EXACT)


def test_distance_and_cosine():
    ref = torch.tensor([[3.0, 4.0], [1.0, 0.0], [2.0, 0.0]])
    own = torch.tensor([[3.0, 4.0], [0.0, 2.0], [-2.0, 0.0]])
    distance, cosine = hidden_drift(own, ref)
    torch.testing.assert_close(distance, torch.tensor([0.0, 5**0.5, 2.0]))
    torch.testing.assert_close(cosine, torch.tensor([1.0, 0.0, -1.0]))


def test_is_measured_without_gradient_in_float32():
    own = torch.randn(3, 4, dtype=torch.bfloat16, requires_grad=True)
    for value in hidden_drift(own, own + 1):
        assert value.dtype == torch.float32
        assert not value.requires_grad
