from __future__ import annotations

import torch

from docagent_rl.losses.drift import hidden_drift


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


def test_no_positions():
    assert [value.shape for value in hidden_drift(torch.zeros(0, 4), torch.zeros(0, 4))] == [(0,), (0,)]
