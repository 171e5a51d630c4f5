from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages import registered_estimators
from docagent_rl.advantages.gae import Anchor, token_gae, turn_gae, whitened
from docagent_rl.advantages.inputs import AdvantageInputs, Discounts
from docagent_rl.base.errors import UserError
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, discounts, shapes

E1 = batch(
    turns=[[0, 0, -1, -1, 1, 1, 1, -1]],
    values=[[0.5, 0.7, 9, 9, 0.8, 0.6, 1.1, 9]],
    rewards=[[0, 0.25, 0, 0, 0, -0.1, 2, 0]],
)


def tokens(dense: torch.Tensor, mask: torch.Tensor) -> list[float]:
    return dense[mask].tolist()


def test_e1_without_discount() -> None:
    found = token_gae(E1, whiten=False)
    assert tokens(found.advantages, E1.mask) == pytest.approx(
        [1.65, 1.45, 1.10, 1.30, 0.90], abs=1e-4
    )
    assert tokens(found.returns, E1.mask) == pytest.approx([2.15, 2.15, 1.90, 1.90, 2.00], abs=1e-4)
    white = tokens(token_gae(E1).advantages, E1.mask)
    assert white == pytest.approx([1.2635, 0.5805, -0.6147, 0.0683, -1.2977], abs=1e-4)


def test_e1_with_discounts() -> None:
    found = token_gae(
        replace(E1, discounts=Discounts(gamma_token=0.9, lam_token=0.8)), whiten=False
    )
    assert tokens(found.advantages, E1.mask) == pytest.approx(
        [0.5397, 0.5691, 0.4154, 0.9380, 0.9000], abs=1e-4
    )
    assert tokens(found.returns, E1.mask) == pytest.approx(
        [1.0397, 1.2691, 1.2154, 1.5380, 2.0000], abs=1e-4
    )


@checked
@given(shapes(), discounts)
def test_equals_the_slow_version(shape: Shape, d: Discounts) -> None:
    inputs = build(shape, d)
    advantages, returns = references.token_gae(inputs)
    found = token_gae(inputs, whiten=False)
    torch.testing.assert_close(found.advantages, advantages)
    torch.testing.assert_close(found.returns, returns)
    torch.testing.assert_close(
        token_gae(inputs).advantages,
        references.whitened(advantages, inputs.mask),
        atol=1e-6,
        rtol=1e-6,
    )
    assert torch.equal(found.value_mask, inputs.mask)


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


anchors = st.sampled_from(Anchor)


def e2(**d: float) -> AdvantageInputs:
    return batch(
        turns=[[0, 0, -1, -1, 1, 1, 1, -1, 2, 2]],
        values=[[1.2, 1.5, 9, 9, 1.0, 1.4, 1.6, 9, 2.0, 2.4]],
        rewards=[[0, 0.5, 0, 0, 0, -0.06, 0.2, 0, 0, 3.0]],
        discounts=Discounts(**({"gamma_turn": 0.9} | d)),
    )


def advantages(inputs: AdvantageInputs, **options: object) -> list[float]:
    return turn_gae(inputs, **options).advantages[inputs.mask].tolist()


@pytest.mark.parametrize("anchor", Anchor)
def test_e2_lambda_one(anchor: Anchor) -> None:
    want = [1.91, 1.61, 1.84, 1.44, 1.30, 1.00, 0.60]
    assert advantages(e2(), anchor=anchor, whiten=False) == pytest.approx(want, abs=1e-4)
    returns = turn_gae(e2(), anchor=anchor).returns[e2().mask].tolist()
    assert returns == pytest.approx([3.11, 3.11, 2.84, 2.84, 2.90, 3.00, 3.00], abs=1e-4)
    white = [1.1229, 0.4804, 0.9730, 0.1163, -0.1836, -0.8261, -1.6828]
    assert advantages(e2(), anchor=anchor) == pytest.approx(white, abs=1e-4)


@pytest.mark.parametrize(
    ("anchor", "want"),
    [
        (Anchor.END, [1.2035, 0.9035, 1.57, 1.17, 1.03, 1.00, 0.60]),
        (Anchor.START, [0.8525, 0.5525, 1.39, 0.99, 0.85, 1.00, 0.60]),
    ],
)
def test_e2_lambda_half(anchor: Anchor, want: list[float]) -> None:
    assert advantages(e2(lam_turn=0.5), anchor=anchor, whiten=False) == pytest.approx(
        want, abs=1e-4
    )


def test_e2_token_discounts() -> None:
    want = [0.9975, 0.9035, 1.1343, 0.9407, 1.0300, 0.7930, 0.6000]
    inputs = e2(lam_turn=0.5, gamma_token=0.95, lam_token=0.9)
    assert advantages(inputs, whiten=False) == pytest.approx(want, abs=1e-4)


def test_e2_broadcast() -> None:
    end = advantages(e2(), broadcast=True, allow_biased=True, whiten=False)
    assert end == pytest.approx([1.61, 1.61, 1.30, 1.30, 1.30, 0.60, 0.60], abs=1e-4)
    found = turn_gae(e2(), anchor=Anchor.START, broadcast=True, whiten=False)
    start = found.advantages[e2().mask].tolist()
    assert start == pytest.approx([1.91, 1.91, 1.90, 1.90, 1.90, 1.00, 1.00], abs=1e-4)
    assert found.value_mask.nonzero()[:, 1].tolist() == [0, 4, 8]
    assert found.returns[found.value_mask].tolist() == pytest.approx([3.11, 2.90, 3.00], abs=1e-4)


@checked
@given(shapes(), discounts, anchors, st.booleans())
def test_two_levels_equal_the_slow_version(
    shape: Shape, d: Discounts, anchor: Anchor, broadcast: bool
) -> None:
    inputs = build(shape, d)
    slow, returns = references.turn_gae(inputs, anchor.value, broadcast)
    options = {"anchor": anchor, "broadcast": broadcast, "allow_biased": True}
    found = turn_gae(inputs, **options, whiten=False)
    torch.testing.assert_close(found.advantages, slow)
    torch.testing.assert_close(found.returns, returns)
    white = references.whitened(slow, inputs.mask)
    torch.testing.assert_close(turn_gae(inputs, **options).advantages, white, atol=1e-6, rtol=1e-6)


def test_what_is_biased_has_to_be_allowed():
    with pytest.raises(UserError, match="set allow_biased=true to reproduce it"):
        turn_gae(e2(), broadcast=True)
    parsed = registered_estimators()["turn_gae"].parse({"broadcast": True, "allow_biased": True})
    assert turn_gae(e2(), **parsed).advantages.shape == e2().mask.shape


@pytest.mark.parametrize(
    ("numbers", "wanted"),
    [([1.0, 2.0, 3.0], [-1.0, 0.0, 1.0]), ([2.0] * 5, [0.0] * 5), ([4.0], [0.0]), ([], [])],
)
def test_whitening_by_hand(numbers: list[float], wanted: list[float]) -> None:
    assert whitened(torch.tensor(numbers).double()).tolist() == pytest.approx(wanted)


def test_a_small_spread_is_not_blown_up() -> None:
    """A variance of 5e-9 is near eps, which is 1e-8."""
    found = whitened(torch.tensor([0.0, 1e-4]).double())
    assert found.tolist() == pytest.approx([-5e-5 / 1.5e-8**0.5, 5e-5 / 1.5e-8**0.5])
