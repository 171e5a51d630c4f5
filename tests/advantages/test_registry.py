from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
import torch

from docagent_rl.advantages import AdvantageInputs, Advantages, Need, register, registered_estimators
from docagent_rl.advantages.groups import Std
from docagent_rl.advantages.registry import _ESTIMATORS, Estimator
from docagent_rl.base.errors import UserError


@pytest.fixture(autouse=True)
def _forget():
    before = dict(_ESTIMATORS)
    yield
    _ESTIMATORS.clear()
    _ESTIMATORS.update(before)


def batch() -> AdvantageInputs:
    return AdvantageInputs(
        token_rewards=torch.tensor([[0.0, 1.0], [0.0, 3.0]]),
        mask=torch.ones(2, 2),
        turn_index=torch.zeros(2, 2, dtype=torch.int64),
        trajectory=torch.tensor([0, 1]),
        row=torch.tensor([0, 0]),
        group=torch.tensor([0, 0]),
    )


def test_what_the_packages_own_need():
    needs = {
        "trajectory_grpo": set(),
        "spo": {Need.EMBEDDINGS},
        "spo_prefix": {Need.PREFIXES},
        "token_gae": {Need.VALUES},
        "turn_gae": {Need.VALUES},
        "turn_grpo": set(),
    }
    known = registered_estimators()  # and those that other tests have made known
    assert {name: set(known[name].needs) for name in needs} == needs
    assert {name for name in needs if known[name].embeds} == {"spo", "spo_prefix"}


def test_options_come_as_the_function_takes_them():
    estimator = registered_estimators()["trajectory_grpo"]
    assert estimator.parse({"std": "biased", "loo": True, "eps": 1}) == {
        "std": Std.BIASED,
        "loo": True,
        "eps": 1.0,
    }
    result = estimator.compute(batch(), {"std": "none", "of_another": None})
    assert result.advantages.tolist() == [[-1.0, -1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sdt": "none"}, r"options\.sdt.*has no such option; known are std, loo"),
        ({"std": "half"}, r"options\.std='half'"),
        ({"eps": "small"}, r"options\.eps='small'"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UserError, match=message):
        registered_estimators()["trajectory_grpo"].parse(options)


def test_own_estimator():
    @register("halves")
    def halves(inputs: AdvantageInputs, *, factor: float) -> Advantages:
        totals = inputs.token_rewards.sum(1, keepdim=True) * inputs.mask
        return Advantages(totals * factor, totals)

    estimator = registered_estimators()["halves"]
    assert estimator.compute(batch(), {"factor": "0.5"}).advantages.tolist() == [[0.5, 0.5], [1.5, 1.5]]
    with pytest.raises(UserError, match=r"needs docagent\.advantage\.options\.factor"):
        estimator.parse({})


def test_a_name_belongs_to_one_object_that_can_be_called():
    def scaled(inputs: AdvantageInputs, *, factor: float = 1.0) -> Advantages:
        return Advantages(inputs.token_rewards * factor, inputs.token_rewards)

    half = partial(scaled, factor=0.5)
    register("half")(half)
    assert register("half")(half) is half
    with pytest.raises(UserError, match="'half' is registered already"):
        register("half")(partial(scaled, factor=0.25))


def test_a_name_belongs_to_one_function():
    with pytest.raises(UserError, match=r"'spo' is registered already, by docagent_rl\.advantages\.spo\.spo"):
        register("spo")(lambda inputs: None)


def test_results_are_checked():
    @register("narrow")
    def narrow(inputs: AdvantageInputs) -> Advantages:
        return Advantages(inputs.token_rewards[:, :1], inputs.token_rewards)

    @register("wild")
    def wild(inputs: AdvantageInputs) -> Advantages:
        # of one token alone: the others are 0 / 1
        return Advantages(inputs.token_rewards / (inputs.token_rewards != 3), inputs.token_rewards)

    with pytest.raises(UserError, match=r"narrow: advantages has shape \(2, 1\) where \(2, 2\)"):
        registered_estimators()["narrow"].compute(batch(), {})
    with pytest.raises(UserError, match="wild: advantages is not finite"):
        registered_estimators()["wild"].compute(batch(), {})


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (None, "nothing"),
        (1.0, "float"),
        (Advantages(torch.ones(2, 2).long(), torch.ones(2, 2)), "advantages is torch.int64"),
        (Advantages(torch.ones(2, 2), [[1.0] * 2] * 2), "returns is a list"),
    ],
)
def test_a_result_of_another_form(result, named):
    with pytest.raises(UserError, match=named):
        Estimator("odd", lambda inputs: result, frozenset()).compute(batch(), {})


def test_what_stands_outside_of_the_mask_is_zeroed():
    nan = float("nan")

    @register("careless")
    def careless(inputs: AdvantageInputs) -> Advantages:
        values = torch.full(inputs.mask.shape, nan)
        values[inputs.mask] = 2.0
        return Advantages(values, values.clone(), value_mask=torch.ones(inputs.mask.shape))

    inputs = replace(batch(), mask=torch.tensor([[1, 1], [0, 1]]), turn_index=torch.tensor([[0, 0], [-1, 0]]))
    result = registered_estimators()["careless"].compute(inputs, {})
    assert result.advantages.tolist() == [[2.0, 2.0], [0.0, 2.0]]
    assert result.returns.tolist() == [[2.0, 2.0], [0.0, 2.0]]
    assert result.value_mask.tolist() == [[True, True], [False, True]]


def test_a_mask_of_targets_has_the_shape_of_the_batch():
    @register("short")
    def short(inputs: AdvantageInputs) -> Advantages:
        zeros = torch.zeros(inputs.mask.shape)
        return Advantages(zeros, zeros, value_mask=torch.ones(2))

    with pytest.raises(UserError, match=r"value_mask has shape \(2,\)"):
        registered_estimators()["short"].compute(batch(), {})
