from __future__ import annotations

import functools
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, get_args

import pytest
import torch
from pydantic import Field

from docagent_rl.advantages import (
    AdvantageInputs,
    Advantages,
    Need,
    register,
    registered_estimators,
)
from docagent_rl.advantages.groups import Std
from docagent_rl.advantages.grpo import grpo, outcome_advantages, turn_grpo
from docagent_rl.advantages.registry import (
    _ESTIMATORS,
    REQUIRED,
    Estimator,
    option_type,
    options_of,
)
from docagent_rl.advantages.spo import similarity_advantages, spo, spo_prefix
from docagent_rl.base.errors import UserError
from tests.advantages.batches import batch

if TYPE_CHECKING:
    from fractions import Fraction


@pytest.fixture(autouse=True)
def _forget():
    before = dict(_ESTIMATORS)
    yield
    _ESTIMATORS.clear()
    _ESTIMATORS.update(before)


def two_rows() -> AdvantageInputs:
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
    result = estimator.compute(two_rows(), {"std": "none", "of_another": None})
    assert result.advantages.tolist() == [[-1.0, -1.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sdt": "none"}, r"options\.sdt.*has no such option; its options: std, loo"),
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
    assert estimator.compute(two_rows(), {"factor": "0.5"}).advantages.tolist() == [
        [0.5, 0.5],
        [1.5, 1.5],
    ]
    with pytest.raises(UserError, match=r"needs docagent\.advantage\.options\.factor"):
        estimator.parse({})


def test_a_name_belongs_to_one_object_that_can_be_called():
    def scaled(inputs: AdvantageInputs, *, factor: float = 1.0) -> Advantages:
        return Advantages(inputs.token_rewards * factor, inputs.token_rewards)

    half = partial(scaled, factor=0.5)
    register("half")(half)
    assert register("half")(half) is half
    with pytest.raises(UserError, match="'half' is already registered"):
        register("half")(partial(scaled, factor=0.25))
    with pytest.raises(
        UserError, match=r"'spo' is already registered by docagent_rl\.advantages\.spo\.spo"
    ):
        register("spo")(lambda inputs: None)


@pytest.mark.parametrize(
    ("result", "named"),
    [
        (None, "nothing"),
        (1.0, "float"),
        (Advantages(torch.ones(2, 2).long(), torch.ones(2, 2)), "advantages is torch.int64"),
        (Advantages(torch.ones(2, 2), [[1.0] * 2] * 2), "returns is a list"),
        (
            Advantages(torch.ones(2, 1), torch.ones(2, 2)),
            r"odd: advantages has shape \(2, 1\), but \(2, 2\)",
        ),
        (
            Advantages(torch.ones(2, 2), torch.ones(2, 2), torch.ones(2)),
            r"value_mask has shape \(2,\)",
        ),
        # of one token alone
        (
            Advantages(1 / torch.tensor([[1.0, 1.0], [1.0, 0.0]]), torch.ones(2, 2)),
            "advantages is not finite",
        ),
    ],
)
def test_a_result_of_another_form(result, named):
    with pytest.raises(UserError, match=named):
        Estimator("odd", lambda inputs: result, frozenset()).compute(two_rows(), {})


def test_what_stands_outside_of_the_mask_is_zeroed():
    nan = float("nan")

    @register("careless")
    def careless(inputs: AdvantageInputs) -> Advantages:
        values = torch.full(inputs.mask.shape, nan)
        values[inputs.mask] = 2.0
        return Advantages(values, values.clone(), value_mask=torch.ones(inputs.mask.shape))

    inputs = replace(
        two_rows(), mask=torch.tensor([[1, 1], [0, 1]]), turn_index=torch.tensor([[0, 0], [-1, 0]])
    )
    result = registered_estimators()["careless"].compute(inputs, {})
    assert result.advantages.tolist() == [[2.0, 2.0], [0.0, 2.0]]
    assert result.returns.tolist() == [[2.0, 2.0], [0.0, 2.0]]
    assert result.value_mask.tolist() == [[True, True], [False, True]]


# a group of three trajectories, the first of two rows, and a group of one
BATCH = {
    "turns": [[0, -1, 1], [2, 2, -1], [0, 1, -1], [0, -1, 1], [0, 0, 1]],
    "rewards": [[0.5, 0, 1.0], [0.2, 0.1, 0], [0.3, 0.4, 0], [1.0, 0, -0.6], [0.7, 0.1, 0.2]],
    "values": [[0.1, 0, 0.4], [0.2, 0.5, 0], [0.3, 0.1, 0], [0.9, 0, 0.2], [0.5, 0.4, 0.3]],
    "trajectory": [0, 0, 1, 2, 3],
    "row": [0, 1, 0, 0, 0],
    "group": [0, 0, 0, 0, 1],
}
VECTORS = torch.tensor([[1.0, 0.2], [0.6, -0.9], [-0.8, 0.9], [1.0, 1.0]])
SOFTMAX = {"negatives": "softmax", "temperature": 0.2}
WEIGHTED = {"std": "weighted"}
CASES = [
    *((name, {}, {"tol": 10.0}) for name in ("trajectory_grpo", "turn_grpo", "spo", "spo_prefix")),
    ("turn_grpo", {"std": "biased"}, {"eps": 0.1}),
    *(
        (name, base, {"eps": 0.1})
        for name in ("spo", "spo_prefix")
        for base in (WEIGHTED, {"std": "group"})
    ),
    *(("spo_prefix", {}, change) for change in (WEIGHTED, {"negatives": "affine"})),
    *((name, SOFTMAX, {"temperature": 0.5}) for name in ("spo", "spo_prefix")),
]
"""Options that neither a slow version nor numbers by hand hold."""


def made(name, options):
    steps = torch.tensor([[0, 0, 1], [2, 2, 2], [0, 1, 1], [0, 0, 1], [0, 0, 1]])
    prefixes = torch.stack([torch.zeros_like(VECTORS), VECTORS, VECTORS.flip(1)], dim=1)
    inputs = batch(**BATCH, embeddings=VECTORS, prefix_embeddings=prefixes, step=steps)
    return registered_estimators()[name].compute(inputs, options).advantages


@pytest.mark.parametrize(("name", "base", "change"), CASES, ids=lambda value: str(value))
def test_it_changes_advantages(name, base, change):
    before, after = made(name, base), made(name, {**base, **change})
    assert not torch.allclose(before, after, atol=1e-4)


@pytest.mark.parametrize("std", ["biased", "unbiased"])
def test_eps_is_added_to_the_deviation(std):
    """The totals 1.8, 0.7 and 0.4 are compared with advantages computed by hand."""
    mean, n = (1.8 + 0.7 + 0.4) / 3, 3 if std == "biased" else 2
    deviation = math.sqrt(sum((x - mean) ** 2 for x in (1.8, 0.7, 0.4)) / n)
    found = made("trajectory_grpo", {"std": std, "eps": 0.5})
    assert float(found[0, 0]) == pytest.approx((1.8 - mean) / (deviation + 0.5))


def keywords(
    inputs: AdvantageInputs, *, decay: float = 0.9, share: Fraction | None = None
) -> Advantages: ...


def positional(inputs, decay: Annotated[float, Field(ge=0)] = 0.9, *, power): ...


def wrapped(function):
    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


def test_options_are_what_follows_the_batch():
    assert options_of("mine", keywords) == {"decay": 0.9, "share": None}
    assert options_of("mine", positional) == {"decay": 0.9, "power": REQUIRED}
    assert options_of("mine", wrapped(positional)) == {"decay": 0.9, "power": REQUIRED}
    assert options_of("mine", lambda *args, **kwargs: None) == {}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, "must take the batch, an AdvantageInputs, as its first argument"),
        (lambda *, inputs: None, "must take the batch"),
        (lambda inputs, decay, /: None, "option decay cannot be passed by keyword: remove the '/'"),
    ],
)
def test_functions_that_cannot_be_called(function, message):
    with pytest.raises(UserError, match=message):
        register("mine")(function)


@pytest.mark.parametrize(
    "function",
    [outcome_advantages, similarity_advantages, grpo, turn_grpo, spo, spo_prefix],
)
def test_what_counts_as_equal_and_what_is_added_to_a_std_is_a_millionth(function):
    options = options_of("mine", function)
    assert {options[name] for name in ("tol", "eps") if name in options} == {1e-6}


def test_only_the_type_of_the_option_is_read():
    assert option_type("mine", keywords, "decay") is float
    assert option_type("mine", wrapped(keywords), "decay") is float
    assert get_args(option_type("mine", positional, "decay"))[0] is float
    with pytest.raises(
        UserError, match=r"type .* of option share cannot be evaluated .*TYPE_CHECKING"
    ):
        option_type("mine", keywords, "share")
