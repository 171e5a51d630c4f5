"""The mean over turns by hand; `test_trained_tokens.py` compares it with float64."""

from functools import partial

import pytest
import torch
from verl.utils import tensordict_utils as tu
from verl.workers.utils.losses import ppo_loss

from docagent_rl.training.workers.turn_loss import (
    TURN_LENGTHS,
    TURNS,
    TurnMeanLoss,
    row_turn_lengths,
    trained_turns,
)
from tests.training.workers.batches import actor, batch, gradients, nested, ragged

RESPONSES = ["sssos", "ss"]
PROMPTS = [2, 3]
LENGTHS = [[4, 1], [2]]
"""Turns of three, one and two sampled tokens."""


def micro_batch(turns: int):
    data = batch(RESPONSES, PROMPTS)
    responses = [torch.zeros(len(text)) for text in RESPONSES]
    for name in ("old_log_probs", "ref_log_prob"):
        data[name] = nested(responses)
    data["advantages"] = nested([torch.ones(len(text)) for text in RESPONSES])
    whole = [prompt + len(text) for prompt, text in zip(PROMPTS, RESPONSES, strict=True)]
    data["own"] = nested([torch.zeros(length) for length in whole])
    data[TURN_LENGTHS] = ragged(LENGTHS, torch.int64)
    tu.assign_non_tensor(data, dp_size=1, batch_num_tokens=6, global_batch_size=2, **{TURNS: turns})
    return data


def test_each_turn_has_the_same_weight():
    data = micro_batch(3)
    assert trained_turns(data) == 3
    base = partial(ppo_loss, config=actor("seq-mean-token-mean", kl_loss_coef=0.0))
    value, metrics, gradient = gradients(TurnMeanLoss(base), data)
    assert value == pytest.approx(-1)
    # at a ratio of 1 the gradient is -advantage / tokens of the turn / turns; values are one
    # position before their tokens
    long, alone, second = 1 / 3 / 3, 1 / 3, 1 / 2 / 3
    first_row = [0, long, long, long, 0, alone, 0]
    expected = [*first_row, 0, 0, second, second, 0]
    torch.testing.assert_close(-gradient, torch.tensor(expected))
    assert metrics["actor/pg_loss"].aggregate() == pytest.approx(-1)


def test_other_workers_turns_count_in_the_divisor():
    base = partial(ppo_loss, config=actor("seq-mean-token-mean", kl_loss_coef=0.0))
    value, _, _ = gradients(TurnMeanLoss(base), micro_batch(12))
    assert value == pytest.approx(-3 / 12)


def test_a_turn_of_which_all_is_rejected_does_not_count():
    data = micro_batch(3)
    mask = [row.clone() for row in data["response_mask"].unbind()]
    mask[0][4] = 0
    data["response_mask"] = nested(mask)
    assert trained_turns(data) == 2


def test_outputs_may_be_concatenated():
    """As verl's packed engines return them."""
    data = micro_batch(3)
    loss = TurnMeanLoss(partial(ppo_loss, config=actor("seq-mean-token-mean", kl_loss_coef=0.0)))
    outputs = data["own"].values(), data["own"]
    found = [loss(model_output={"log_probs": each}, data=data)[0] for each in outputs]
    assert found[0] == found[1]


def test_a_row_with_which_verl_fills_up_is_one_turn():
    """It keeps the turns of the row that it was copied from, and has one token."""
    copied = torch.tensor([0, 0, -1, 1])
    assert row_turn_lengths(copied, 4).tolist() == [3, 1]
    assert row_turn_lengths(copied, 1).tolist() == [1]
