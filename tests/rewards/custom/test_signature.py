"""Signatures of reward functions are recognised, and each gets its arguments."""

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.rewards.custom.signature import CallStyle, RewardCall, style_of

CALL = RewardCall("q7", "slidevqa", "41", "42", 130, {"num_turns": 3})


def verl(data_source, solution_str, ground_truth, extra_info=None):
    pass


def verl_with_options(solution_str, ground_truth, *, bonus=0.0, **others):
    pass


def anything(**given):
    pass


def of_inputs(reward_inputs, format_weight=0.1):
    pass


async def asynchronous(data_source, solution_str, ground_truth, extra_info):
    pass


class Scorer:
    def __call__(self, data_source, solution_str, ground_truth, extra_info):
        pass


@pytest.mark.parametrize(
    ("function", "variables", "reward_kwargs", "style"),
    [
        (verl, {}, {}, CallStyle.VERL),
        (verl_with_options, {}, {"bonus": 1}, CallStyle.VERL),
        (anything, {}, {"bonus": 1}, CallStyle.VERL),
        (asynchronous, {}, {}, CallStyle.VERL),
        (Scorer(), {}, {}, CallStyle.VERL),
        (verl, {"REWARD_TYPE": "batch"}, {}, CallStyle.VERL),
        (of_inputs, {}, {}, CallStyle.EASYR1_BATCH),
        (of_inputs, {"REWARD_TYPE": "batch"}, {"format_weight": 0.5}, CallStyle.EASYR1_BATCH),
        (of_inputs, {"REWARD_TYPE": "sequential"}, {}, CallStyle.EASYR1_SEQUENTIAL),
    ],
)
def test_the_style_of_a_function(function, variables, reward_kwargs, style):
    assert style_of(function, variables, reward_kwargs, "mine") is style


@pytest.mark.parametrize(
    ("function", "variables", "reward_kwargs", "message"),
    [
        (lambda solution_str, ground_truth: 0, {}, {}, "unexpected keyword argument 'data_source'"),
        (lambda data_source, solution_str, ground_truth, extra_info, scale: 0, {}, {}, "'scale'"),
        (verl, {}, {"bonus": 1}, "reward_kwargs bonus: got an unexpected keyword argument 'bonus'"),
        (lambda: 0, {"REWARD_TYPE": "batch"}, {}, "too many positional arguments"),
        (
            lambda inputs, weight: 0,
            {},
            {},
            "a list of dictionaries: missing a required argument: 'weight'",
        ),
        (
            of_inputs,
            {"REWARD_TYPE": "sequential"},
            {"weight": 1},
            "one dictionary and reward_kwargs weight",
        ),
        (
            of_inputs,
            {"REWARD_TYPE": "single"},
            {},
            "REWARD_TYPE = 'single' .* 'batch' or 'sequential'",
        ),
        (dict.get, {}, {}, "a list of dictionaries|cannot be inspected"),
        (iter, {}, {}, "cannot be inspected"),
    ],
)
def test_what_takes_the_arguments_of_neither_is_refused(
    function, variables, reward_kwargs, message
):
    with pytest.raises(UserError, match=f"^mine: .*(?:{message})"):
        style_of(function, variables, reward_kwargs, "mine")


def test_what_a_function_is_given():
    positional, named = CALL.arguments(CallStyle.VERL, {"bonus": 2})
    assert positional == ()
    assert named == {
        "data_source": "slidevqa",
        "solution_str": "41",
        "ground_truth": "42",
        "extra_info": {"num_turns": 3},
        "bonus": 2,
    }
    told = {
        "response": "41",
        "response_length": 130,
        "ground_truth": "42",
        "data_source": "slidevqa",
        "extra_info": {"num_turns": 3},
    }
    assert CALL.arguments(CallStyle.EASYR1_BATCH, {"w": 1}) == (([told],), {"w": 1})
    assert CALL.arguments(CallStyle.EASYR1_SEQUENTIAL, {}) == ((told,), {})


def test_reward_kwargs_win_as_in_verl():
    _, named = CALL.arguments(CallStyle.VERL, {"ground_truth": "mine"})
    assert named["ground_truth"] == "mine"
