import math
from dataclasses import replace

import pytest
import torch

from docagent_rl.advantages.inputs import AdvantageInputs, Discounts, originals
from docagent_rl.advantages.trajectories import compress
from docagent_rl.base.errors import UserError
from tests.advantages.batches import batch


def small(**changes: object) -> AdvantageInputs:
    inputs = batch(
        turns=[[0, -1, 1], [0, 0, -1]],
        rewards=[[0.0, 0, 1], [0, 2, 0]],
        values=[[0.0, 0, 0], [0, 0, 0]],
        trajectory=[5, 6],
        group=[1, 1],
    )
    return replace(inputs, **changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_rewards": torch.zeros(0, 3)}, r"token_rewards has shape \(0, 3\)"),
        ({"token_rewards": torch.zeros(2, 3, dtype=torch.long)}, "token_rewards is torch.int64"),
        ({"values": torch.zeros(2, 4)}, "values has shape"),
        ({"mask": torch.ones(3, 3)}, "mask has shape"),
        ({"trajectory": torch.tensor([1])}, "trajectory has shape"),
        ({"group": torch.tensor([1.0, 2.0])}, "group is torch.float32"),
        ({"group": torch.tensor([True, False])}, "group is torch.bool"),
        ({"embeddings": torch.zeros(3, 4)}, "2 trajectories"),
        ({"prefix_embeddings": torch.zeros(2, 4)}, "2 trajectories"),
        ({"texts": ["a"]}, "texts .* 1 .* 2 trajectories"),
        ({"mask": torch.ones(2, 3)}, "turn_index .* batch row 0"),
        ({"trajectory": torch.tensor([5, 5]), "valid": torch.ones(2)}, "row 0 of trajectory 5"),
        (
            {
                "trajectory": torch.tensor([5, 5]),
                "row": torch.tensor([0, 1]),
                "group": torch.tensor([1, 2]),
            },
            "group",
        ),
        ({"values": torch.tensor([[0, 0, math.nan], [0, 0, 0]])}, "values is"),
        ({"token_rewards": torch.tensor([[0, 0, 1], [0, math.inf, 0]])}, "token_rewards is"),
    ],
)
def test_bad_input_names_the_field(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        small(**changes)


def test_a_reward_of_a_turn_without_sampled_tokens_is_an_error() -> None:
    lost = torch.tensor([[1, 0, 0], [1, 1, 0]])
    with pytest.raises(UserError, match="turn 1 at position 2"):
        small(mask=lost)
    with pytest.raises(UserError, match="turn 0 at position 0"):
        small(mask=torch.tensor([[0, 0, 1], [1, 1, 0]]), token_rewards=torch.ones(2, 3))
    # a trajectory that is masked altogether is left out with its rewards
    assert not small(mask=torch.tensor([[0, 0, 0], [1, 1, 0]])).mask[0].any()
    # and a turn without tokens and without reward is dropped
    quiet = small(mask=lost, token_rewards=torch.tensor([[1.0, 0, 0], [0, 2, 0]]))
    assert compress(quiet).turn.tolist() == [0, 1, 1]


@pytest.mark.parametrize("name", ["gamma_token", "lam_token", "gamma_turn", "lam_turn"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_discounts_are_checked(name: str, value: float) -> None:
    with pytest.raises(UserError, match=name):
        Discounts(**{name: value})


def test_the_first_of_equal_rows_counts_by_default() -> None:
    inputs = small(trajectory=torch.tensor([5, 5]), valid=None)
    assert inputs.valid.tolist() == [True, False]


def test_what_a_copy_holds_is_not_looked_at() -> None:
    values = torch.tensor([[0.0, 0, 0], [float("nan"), 0, 0]])
    assert small(trajectory=torch.tensor([5, 5]), values=values, valid=None).valid.tolist() == [
        True,
        False,
    ]


def test_originals() -> None:
    trajectory, row = torch.tensor([1, 1, 2, 1, 2]), torch.tensor([0, 1, 0, 1, 1])
    assert originals(trajectory, row).tolist() == [0, 1, 2, 1, 4]
    valid = torch.tensor([True, False, False, True, True])
    assert originals(trajectory, row, valid).tolist() == [0, 3, -1, 3, 4]
