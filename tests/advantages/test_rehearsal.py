from __future__ import annotations

import pytest
import torch

from docagent_rl.advantages import Advantages, Need, registered_estimators
from docagent_rl.advantages.registry import Estimator
from docagent_rl.advantages.rehearsal import made_up_inputs, rehearse
from docagent_rl.errors import UserError


def estimator(function, *needs) -> Estimator:
    return Estimator("mine", function, frozenset(needs))


def zeros(inputs) -> Advantages:
    return Advantages(torch.zeros(inputs.mask.shape), torch.zeros(inputs.mask.shape))


@pytest.mark.parametrize("name", ["turn_gae", "token_gae", "spo", "spo_prefix", "session_grpo", "turn_grpo"])
@pytest.mark.parametrize("sessions", [1, 2, 5])
def test_built_in_estimators_pass(name, sessions):
    assert rehearse(registered_estimators()[name], {}, sessions=sessions) is None


def test_the_batch_holds_what_is_needed():
    plain = made_up_inputs(set())
    assert plain.values is None
    assert plain.embeddings is None
    full = made_up_inputs({Need.VALUES, Need.EMBEDDINGS}, sessions=3)
    assert full.values.shape == full.mask.shape
    assert len(full.embeddings) == len(full.texts) == 6
    assert full.group.tolist() == [0, 0, 0, 1, 1, 1]
    totals = full.token_rewards.sum(1)
    assert len(totals.unique()) == 6
    assert (full.token_rewards[~full.mask] == 0).all()
    assert torch.equal(full.terms["any name"], full.token_rewards)
    assert (~full.mask).any()


def test_a_critic_that_runs_is_there_though_not_needed():
    seen = []

    def function(inputs):
        seen.append(inputs.values is not None)
        return zeros(inputs)

    rehearse(estimator(function), {})
    rehearse(estimator(function), {}, critic=True)
    assert seen == [False, True]


def test_a_large_group_is_not_played_in_full():
    sizes = []

    def function(inputs):
        sizes.append(len(inputs.session))
        return zeros(inputs)

    rehearse(estimator(function), {}, sessions=3)
    rehearse(estimator(function), {}, sessions=1000)
    assert sizes == [6, 16]


@pytest.mark.parametrize("error", [TypeError, NameError, AttributeError, UserError])
def test_mistakes_of_the_code_are_refused(error):
    def function(inputs):
        raise error("what is wrong")

    with pytest.raises(UserError, match="what is wrong"):
        rehearse(estimator(function), {})


@pytest.mark.parametrize("error", [ValueError, RuntimeError, AssertionError, ZeroDivisionError])
def test_what_may_depend_on_the_numbers_is_reported(error):
    def function(inputs):
        raise error("groups of 64 at least")

    found = rehearse(estimator(function), {})
    assert found.startswith(
        f"estimator mine fails on a made-up batch: {error.__name__}: groups of 64 at least ("
    )
    assert found.endswith(f"{__file__}, line {function.__code__.co_firstlineno + 1})")


def test_numbers_that_are_not_finite_are_reported():
    def function(inputs):
        return Advantages(inputs.token_rewards / 0, inputs.token_rewards)

    found = rehearse(estimator(function), {})
    assert found == "estimator mine: advantages is not finite on a sampled token, on a made-up batch"
