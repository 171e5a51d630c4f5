from __future__ import annotations

import pytest
import torch

from docagent_rl.advantages.whiten import whiten


def test_mean_and_unbiased_spread() -> None:
    found = whiten(torch.tensor([1.0, 2.0, 3.0]).double())
    torch.testing.assert_close(found, torch.tensor([-1.0, 0.0, 1.0]).double())


def test_one_token_and_none() -> None:
    assert whiten(torch.tensor([4.0])).tolist() == [0.0]
    assert whiten(torch.zeros(0)).shape == (0,)


def test_equal_tokens_give_zero() -> None:
    assert whiten(torch.full((5,), 2.0)).tolist() == [0.0] * 5


def test_a_small_spread_is_not_blown_up() -> None:
    """Variance 5e-9 beside eps 1e-8."""
    found = whiten(torch.tensor([0.0, 1e-4]).double())
    assert found.tolist() == pytest.approx([-5e-5 / 1.5e-8**0.5, 5e-5 / 1.5e-8**0.5])


def test_a_large_offset_does_not_lose_digits() -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(whiten(x + 1e6), whiten(x), atol=1e-8, rtol=0)
