from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given

from docagent_rl.advantages.compress import compress, linked
from docagent_rl.base.errors import UserError
from tests.advantages import references
from tests.advantages.batches import Shape, batch, build, checked, shapes


@checked
@given(shapes())
def test_order_and_turns(shape: Shape) -> None:
    inputs = build(shape)
    tokens = compress(inputs)
    want = [
        (s, number)
        for number, turn in enumerate(
            t for _, turns in sorted(references.trajectory_turns(inputs).items()) for t in turns
        )
        for s in turn
    ]
    assert list(zip(tokens.rows.tolist(), tokens.positions.tolist(), strict=True)) == [w[0] for w in want]
    assert tokens.turn.tolist() == [w[1] for w in want]


@checked
@given(shapes())
def test_scatter_undoes_gather(shape: Shape) -> None:
    inputs = build(shape)
    tokens = compress(inputs)
    back = tokens.scatter(tokens.gather(inputs.values))
    assert torch.equal(back, inputs.values * inputs.mask)


def test_a_row_without_an_original_gets_zeros() -> None:
    inputs = batch(
        turns=[[0, 0], [0, 0], [0, 0]], rewards=[[0, 1.0], [0, 2.0], [0, 1.0]], trajectory=[0, 1, 0]
    )
    inputs = replace(inputs, valid=torch.tensor([1, 0, 0]))
    tokens = compress(inputs)
    assert tokens.rows.tolist() == [0, 0]
    assert tokens.scatter(tokens.gather(inputs.token_rewards)).tolist() == [[0, 1], [0, 0], [0, 1]]


def test_turns_out_of_order() -> None:
    with pytest.raises(UserError, match="decreases along batch row 1"):
        compress(batch(turns=[[0, 1, 2], [0, 1, 0]], rewards=[[0.0] * 3] * 2))


def test_linked() -> None:
    assert linked(torch.tensor([3, 3, 1])).tolist() == [True, False, False]
    assert linked(torch.tensor([])).tolist() == []
