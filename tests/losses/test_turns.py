import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.losses.turns import TurnRows, turn_lengths
from tools.gpu_check.loss_reference import turns_of


@pytest.mark.parametrize(
    ("turn_index", "lengths"),
    [
        ([0, 0, -1, -1, 1, 1, -1, 2], [4, 3, 1]),
        # a row that begins with an observation, and in the middle of a trajectory
        ([-1, -1, 5, -1, 7], [4, 1]),
        # a turn whose sampled tokens are interrupted by tokens that were inserted
        ([3, -1, 3, 3, -1, 4], [5, 1]),
        ([-1], [1]),
        ([-1, -1, -1], [3]),
        # two turns without anything between them
        ([0, 1], [1, 1]),
    ],
)
def test_a_turn_reaches_from_its_first_sampled_token_to_the_next(turn_index, lengths):
    assert turn_lengths(torch.tensor(turn_index, dtype=torch.int16)).tolist() == lengths


@given(st.text("sproi", min_size=1, max_size=12))
def test_lengths_are_those_of_a_slow_version(kinds):
    turn = -1
    turn_index = []
    for at, kind in enumerate(kinds):
        sampled = kind in "spr"
        turn += sampled and (at == 0 or kinds[at - 1] not in "spr")
        turn_index.append(turn if sampled else -1)
    expected = [len(places) for places in turns_of(kinds)]
    assert turn_lengths(torch.tensor(turn_index)).tolist() == expected


def test_values_are_arranged_by_turn_with_gradients():
    real = torch.tensor([[True, True, True], [True, False, False]])
    values = torch.tensor([[1.0, 2.0, 3.0], [4.0, 9.0, 9.0]], requires_grad=True)
    rows = TurnRows([1, 2, 1], real).arranged(values)
    assert rows.tolist() == [[1, 0], [2, 3], [4, 0]]
    rows[1].sum().backward()
    assert values.grad.tolist() == [[0, 1, 1], [0, 0, 0]]
