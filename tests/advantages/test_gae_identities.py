from __future__ import annotations

from dataclasses import replace

import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.advantages.gae import Anchor, token_gae, turn_gae
from docagent_rl.advantages.inputs import Discounts
from tests.advantages import references
from tests.advantages.batches import Shape, build, checked, discounts, shapes, take_rows

anchors = st.sampled_from(Anchor)


@checked
@given(shapes(), discounts)
def test_anchors_agree_at_lambda_one(shape: Shape, d: Discounts) -> None:
    inputs = build(shape, replace(d, lam_turn=1.0))
    end, start = (turn_gae(inputs, anchor=a) for a in Anchor)
    assert torch.equal(end.advantages, start.advantages)
    assert torch.equal(end.returns, start.returns)


@checked
@given(shapes(max_rows=1))
def test_all_ones_without_query_penalties_is_token_gae(shape: Shape) -> None:
    inputs = build(shape)
    only_ends = torch.zeros_like(inputs.token_rewards)
    for turns in references.trajectory_turns(inputs).values():
        for turn in turns:
            only_ends[turn[-1]] = inputs.token_rewards[turn[-1]]
    inputs = replace(inputs, token_rewards=only_ends)
    torch.testing.assert_close(
        turn_gae(inputs).advantages, token_gae(inputs).advantages, atol=1e-6, rtol=1e-6
    )
    torch.testing.assert_close(turn_gae(inputs).returns, token_gae(inputs).returns)


@checked
@given(st.integers(1, 12), discounts, anchors, st.integers(0, 99))
def test_one_turn_is_verls_gae(size: int, d: Discounts, anchor: Anchor, seed: int) -> None:
    from verl.trainer.ppo.core_algos import compute_gae_advantage_return

    inputs = build(Shape([[[(0, size)]], [[(0, size)]]], [0, 0], seed), d)
    want, returns = compute_gae_advantage_return(
        inputs.token_rewards * inputs.mask,
        inputs.values,
        inputs.mask.double(),
        torch.tensor(d.gamma_token),
        torch.tensor(d.lam_token),
    )
    found = turn_gae(inputs, anchor=anchor)
    torch.testing.assert_close(found.advantages, want * inputs.mask, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(found.returns, returns * inputs.mask, atol=1e-6, rtol=1e-6)


@checked
@given(shapes(max_rows=1), discounts, anchors)
def test_one_row_a_turn_is_one_row_of_all_turns(shape: Shape, d: Discounts, anchor: Anchor) -> None:
    whole = build(shape, d)
    pieces, back = [], []
    for trajectory, turns in references.trajectory_turns(whole).items():
        for k, turn in enumerate(turns):
            pieces.append((turn[0][0], int(whole.turn_index[turn[0]]), trajectory, k))
            back.append(turn)
    if not pieces:
        return
    source = torch.tensor([p[0] for p in pieces])
    only = torch.tensor([p[1] for p in pieces])[:, None]
    own = whole.turn_index[source] == only
    split = take_rows(
        whole,
        source,
        mask=own,
        turn_index=torch.where(own, 0, -1),
        row=torch.tensor([p[3] for p in pieces]),
        valid=None,
        embeddings=None,
    )
    found, want = turn_gae(split, anchor=anchor), turn_gae(whole, anchor=anchor)
    for b, turn in enumerate(back):
        at = torch.tensor([s for _, s in turn])
        torch.testing.assert_close(found.advantages[b, at], want.advantages[turn[0][0], at])
