from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from docagent_rl.advantages.inputs import Discounts
from docagent_rl.advantages.token_gae import token_gae
from docagent_rl.base.errors import UserError
from tests.advantages import references
from tests.advantages.batches import (
    Shape,
    batch,
    build,
    checked,
    discounts,
    noise_off_tokens,
    shapes,
    take_rows,
)

E1 = batch(
    turns=[[0, 0, -1, -1, 1, 1, 1, -1]],
    values=[[0.5, 0.7, 9, 9, 0.8, 0.6, 1.1, 9]],
    rewards=[[0, 0.25, 0, 0, 0, -0.1, 2, 0]],
)


def tokens(dense: torch.Tensor, mask: torch.Tensor) -> list[float]:
    return dense[mask].tolist()


def test_e1_without_discount() -> None:
    found = token_gae(E1, whiten=False)
    assert tokens(found.advantages, E1.mask) == pytest.approx([1.65, 1.45, 1.10, 1.30, 0.90], abs=1e-4)
    assert tokens(found.returns, E1.mask) == pytest.approx([2.15, 2.15, 1.90, 1.90, 2.00], abs=1e-4)
    white = tokens(token_gae(E1).advantages, E1.mask)
    assert white == pytest.approx([1.2635, 0.5805, -0.6147, 0.0683, -1.2977], abs=1e-4)


def test_e1_with_discounts() -> None:
    found = token_gae(replace(E1, discounts=Discounts(gamma_token=0.9, lam_token=0.8)), whiten=False)
    assert tokens(found.advantages, E1.mask) == pytest.approx(
        [0.5397, 0.5691, 0.4154, 0.9380, 0.9000], abs=1e-4
    )
    assert tokens(found.returns, E1.mask) == pytest.approx([1.0397, 1.2691, 1.2154, 1.5380, 2.0000], abs=1e-4)


@checked
@given(shapes(), discounts)
def test_equals_the_slow_version(shape: Shape, d: Discounts) -> None:
    inputs = build(shape, d)
    advantages, returns = references.token_gae(inputs)
    found = token_gae(inputs, whiten=False)
    torch.testing.assert_close(found.advantages, advantages)
    torch.testing.assert_close(found.returns, returns)
    torch.testing.assert_close(
        token_gae(inputs).advantages, references.whitened(advantages, inputs.mask), atol=1e-6, rtol=1e-6
    )
    assert torch.equal(found.value_mask, inputs.mask)


@checked
@given(shapes(), discounts)
def test_observations_do_not_matter(shape: Shape, d: Discounts) -> None:
    inputs = build(shape, d)
    found, other = token_gae(inputs), token_gae(noise_off_tokens(inputs))
    assert torch.equal(found.advantages, other.advantages)
    assert torch.equal(found.returns, other.returns)
    assert not found.advantages[~inputs.mask].any()
    assert not found.returns[~inputs.mask].any()


@checked
@given(shapes(), discounts)
def test_order_of_rows_and_padding_do_not_matter(shape: Shape, d: Discounts) -> None:
    inputs = build(shape, d)
    order = torch.randperm(len(inputs.row), generator=torch.Generator().manual_seed(shape.seed))
    found = token_gae(inputs)
    torch.testing.assert_close(token_gae(take_rows(inputs, order)).advantages, found.advantages[order])
    wide = {
        n: torch.nn.functional.pad(getattr(inputs, n), (0, 5), value=v)
        for n, v in [("token_rewards", 0), ("values", 8.0), ("mask", 0), ("turn_index", -1)]
    }
    padded = token_gae(replace(inputs, **wide))
    assert torch.equal(padded.advantages[:, :-5], found.advantages)
    assert not padded.advantages[:, -5:].any()


@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.9, 0.8), (0.99, 0.0), (0.0, 1.0)])
def test_equals_verl_on_sampled_tokens(gamma: float, lam: float) -> None:
    from verl.trainer.ppo.core_algos import compute_gae_advantage_return

    shape = Shape([[[(0, 4), (3, 2), (1, 5)]], [[(0, 7)]], [[(2, 1), (1, 1)]]], [0, 1, 2], seed=4)
    inputs = build(shape, Discounts(gamma_token=gamma, lam_token=lam))
    rewards = inputs.token_rewards * inputs.mask
    advantages, returns = compute_gae_advantage_return(
        rewards, inputs.values, inputs.mask.double(), torch.tensor(gamma), torch.tensor(lam)
    )
    found = token_gae(inputs)
    torch.testing.assert_close(found.advantages, advantages * inputs.mask, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found.returns, returns * inputs.mask, atol=1e-6, rtol=1e-6)


def test_bfloat16_is_computed_in_float64() -> None:
    shape = Shape([[[(0, 40), (3, 20)]]], [0], seed=1)
    exact = build(shape, Discounts(gamma_token=0.99, lam_token=0.95))
    rewards, values = exact.token_rewards.bfloat16(), exact.values.bfloat16()
    found = token_gae(replace(exact, token_rewards=rewards, values=values), whiten=False)
    slow, _ = references.token_gae(replace(exact, token_rewards=rewards.double(), values=values.double()))
    assert found.advantages.dtype == torch.float32
    torch.testing.assert_close(found.advantages, slow.float())


def test_needs_values() -> None:
    with pytest.raises(UserError, match="critic"):
        token_gae(batch(turns=[[0]], rewards=[[1.0]]))


def test_nothing_sampled() -> None:
    found = token_gae(batch(turns=[[-1, -1]], rewards=[[1.0, 2.0]], values=[[1.0, 2.0]]))
    assert found.advantages.tolist() == [[0.0, 0.0]]


def test_one_token_is_whitened_to_zero() -> None:
    found = token_gae(batch(turns=[[0, -1]], rewards=[[1.0, 2.0]], values=[[0.25, 2.0]]))
    assert found.advantages.tolist() == [[0.0, 0.0]]
    assert found.returns.tolist() == [[1.0, 0.0]]


def test_copies_get_the_result_of_their_original_and_are_not_counted() -> None:
    inputs = build(Shape([[[(0, 3), (1, 2)]], [[(0, 4)]]], [0, 0], seed=9))
    found = token_gae(inputs)
    order = torch.tensor([0, 1, 1, 0, 1])
    copied = token_gae(take_rows(inputs, order, valid=None))
    assert torch.equal(copied.advantages, found.advantages[order])
    assert torch.equal(copied.returns, found.returns[order])
