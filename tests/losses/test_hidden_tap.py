from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from docagent_rl.losses.hidden_tap import HiddenTap


class Base(nn.Linear):
    """Its outputs are those of a transformers model: states first."""

    def forward(self, inputs):
        return (super().forward(inputs), "cache")


@pytest.fixture
def base():
    return Base(2, 3)


def test_the_states_of_the_last_pass_are_taken_once_with_their_gradient(base):
    tap = HiddenTap(SimpleNamespace(base_model=base), training_only=True)
    with pytest.raises(RuntimeError):
        tap.take()
    base(torch.ones(1, 2))
    states, _ = base(torch.full((1, 2), 2.0))
    assert tap.take() is states
    assert states.requires_grad
    with pytest.raises(RuntimeError):
        tap.take()


@pytest.mark.parametrize("training_only", [True, False])
def test_passes_without_gradients_are_kept_where_that_is_wanted(base, training_only):
    tap = HiddenTap(SimpleNamespace(base_model=base), training_only=training_only)
    before, _ = base(torch.ones(1, 2))
    with torch.no_grad():
        after, _ = base(torch.ones(1, 2))
    assert tap.take() is (before if training_only else after)
