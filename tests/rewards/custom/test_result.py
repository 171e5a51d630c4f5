import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.custom.result import ResultError, numbers_of
from docagent_rl.rewards.custom.signature import CallStyle


@pytest.mark.parametrize("result", [0.5, np.float32(0.5), torch.tensor(0.5), np.array([0.5])])
def test_a_number_of_any_library(result):
    assert numbers_of(result, CallStyle.VERL, "mine") == {"mine": 0.5}


def test_a_truth_value_and_a_whole_number():
    assert numbers_of(True, CallStyle.VERL, "mine") == {"mine": 1.0}
    assert numbers_of(3, CallStyle.VERL, "mine") == {"mine": 3.0}


def test_a_dictionary_keeps_its_numbers_by_name():
    result = {"acc": True, "score": 0.25, "pred": "41", "nothing": None, "list": [1, 2]}
    found = numbers_of(result, CallStyle.VERL, "mine")
    assert found == {"mine": 0.25, "mine.acc": 1.0}
    assert next(iter(found)) == "mine"
    scores = {"overall": 0.9, "format": 1.0, "accuracy": None}
    assert numbers_of(scores, CallStyle.EASYR1_SEQUENTIAL, "m") == {"m": 0.9, "m.format": 1.0}
    assert numbers_of([scores], CallStyle.EASYR1_BATCH, "m") == {"m": 0.9, "m.format": 1.0}


@pytest.mark.parametrize(
    ("style", "result", "message"),
    [
        (CallStyle.VERL, None, "returned None, not a number, or a dictionary with 'score'"),
        (CallStyle.VERL, "0.5", "returned str '0.5'"),
        (CallStyle.VERL, [0.5, 0.25], "returned list"),
        (CallStyle.VERL, {"overall": 1.0}, "without 'score'; it has 'overall'"),
        (CallStyle.VERL, {}, "without 'score'; it has nothing"),
        (CallStyle.VERL, {"score": "high"}, "returned str 'high', not a number as 'score'"),
        (
            CallStyle.EASYR1_SEQUENTIAL,
            0.5,
            "returned float '0.5', not a dictionary with 'overall'",
        ),
        (CallStyle.EASYR1_SEQUENTIAL, {"score": 0.5}, "without 'overall'; it has 'score'"),
        (CallStyle.EASYR1_BATCH, {"overall": 0.5}, "not a list with one dictionary per input"),
        (CallStyle.EASYR1_BATCH, [], "a list of 0 results for 1 input"),
        (CallStyle.EASYR1_BATCH, [{}, {}], "a list of 2 results for 1 input"),
        (CallStyle.EASYR1_BATCH, [0.5], "returned float '0.5', not a dictionary"),
    ],
)
def test_what_is_no_reward(style, result, message):
    with pytest.raises(ResultError, match=message):
        numbers_of(result, style, "mine")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e39, 10**400])
def test_what_is_not_finite_is_refused_by_name(value):
    if value != 10**400:  # which is no float at all
        for result in (value, {"score": value}):
            with pytest.raises(ResultError, match="term 'mine' is"):
                numbers_of(result, CallStyle.VERL, "mine")
        with pytest.raises(ResultError, match=r"term 'mine\.bonus' is"):
            numbers_of({"score": 0.5, "bonus": value}, CallStyle.VERL, "mine")
    else:
        with pytest.raises(ResultError, match="returned int"):
            numbers_of(value, CallStyle.VERL, "mine")


@given(
    st.floats(-1e30, 1e30), st.dictionaries(st.text(max_size=5), st.floats(-1e30, 1e30), max_size=3)
)
def test_every_finite_result_is_taken_as_it_is(score, further):
    further.pop("overall", None)
    found = numbers_of([{"overall": score, **further}], CallStyle.EASYR1_BATCH, "m")
    assert found == {"m": score, **{f"m.{key}": value for key, value in further.items()}}
