import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages.scan import lambda_returns, reverse_scan
from tests.advantages import references
from tests.advantages.batches import checked


@pytest.mark.parametrize("n", [0, 1, 2, 70, 256, 257, 320, 16_384, 16_385, 19_000])
def test_blocks_solve_the_recurrence(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    terms = torch.randn(2, 3, n, generator=generator, dtype=torch.float64)
    factors = 2 * torch.rand(2, 3, n, generator=generator, dtype=torch.float64) - 1
    factors[0] = factors[0].sign() * (torch.rand(3, n, generator=generator) > 0.003)
    factors[1, 0] = 0.0
    before = terms.clone(), factors.clone()
    found = reverse_scan(terms, factors)
    x = torch.zeros(2, 3, dtype=torch.float64)
    slow = torch.empty_like(terms)
    for k in reversed(range(n)):
        x = terms[..., k] + factors[..., k] * x
        slow[..., k] = x
    torch.testing.assert_close(found, slow, atol=1e-9, rtol=1e-9)
    assert torch.equal(terms, before[0])
    assert torch.equal(factors, before[1])


def test_small_factors_over_many_steps_do_not_overflow() -> None:
    n, factor = 19_000, 0.99 * 0.95
    found = reverse_scan(
        torch.ones(n, dtype=torch.float64), torch.full((n,), factor, dtype=torch.float64)
    )
    assert abs(float(found[0]) - 1 / (1 - factor)) < 1e-9
    assert float(found[-1]) == 1.0


@checked
@given(
    st.lists(st.integers(1, 9), max_size=5), st.floats(0, 1), st.floats(0, 1), st.integers(0, 1000)
)
def test_lambda_returns_are_gae_plus_values(
    sizes: list[int], gamma: float, lam: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    n = sum(sizes)
    rewards, values = torch.randn(2, n, generator=generator, dtype=torch.float64)
    linked = torch.ones(n, dtype=torch.bool)
    linked[torch.tensor(sizes, dtype=torch.long).cumsum(0) - 1] = False
    found = lambda_returns(rewards, values, linked, gamma, lam)
    at = 0
    for size in sizes:
        r, v = rewards[at : at + size].tolist(), values[at : at + size].tolist()
        slow = (
            torch.tensor(references.gae(r, v, gamma, lam), dtype=torch.float64)
            + values[at : at + size]
        )
        torch.testing.assert_close(found[at : at + size], slow)
        at += size


def test_values_cancel_exactly_at_lambda_one() -> None:
    rewards, linked = torch.tensor([0.5, 0.25, 3.0]).double(), torch.tensor([True, True, False])
    junk = torch.tensor([1e15, -3e14, 7e15]).double()
    assert lambda_returns(rewards, junk, linked, 1.0, 1.0).tolist() == [3.75, 3.25, 3.0]
