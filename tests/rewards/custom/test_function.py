"""Functions in real files: loaded, called in threads and in the event loop, and what they do
wrong.
"""

import asyncio

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.rewards.custom.config import RewardFunctionConfig
from docagent_rl.rewards.custom.function import (
    RewardFunction,
    RewardFunctionError,
    load_reward_function,
)
from docagent_rl.rewards.custom.signature import CallStyle, RewardCall

CALL = RewardCall("q7", "slidevqa", "41", "42", 130, {"num_turns": 3})
VERL = "def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1.0):\n"

PLAIN = """
def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1.0):
    return scale * len(solution_str)
"""
ASYNCHRONOUS = """
import asyncio

async def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1.0):
    await asyncio.sleep(0)
    return {"score": scale * len(solution_str)}
"""
RETURNS_A_COROUTINE = """
async def later(value):
    return value

def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1.0):
    return later(scale * len(solution_str))
"""
INSTANCE = """
class Score:
    def __call__(self, data_source, solution_str, ground_truth, extra_info, scale):
        return scale * len(solution_str)

compute_score = Score()
"""
DATA_CLASS = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Found:
    score: float

def compute_score(data_source, solution_str, ground_truth, extra_info=None, scale=1.0):
    return Found(scale * len(solution_str)).score
"""
LIST_OF_INPUTS = """
def compute_score(reward_inputs, scale=1.0):
    return [{"overall": scale * len(each["response"])} for each in reward_inputs]
"""
ASYNCHRONOUS_LIST = """
async def compute_score(reward_inputs, scale=1.0):
    return [{"overall": scale * len(each["response"])} for each in reward_inputs]
"""
SEQUENTIAL = """
REWARD_NAME = "mine"
REWARD_TYPE = "sequential"

def compute_score(reward_input, scale=1.0):
    return {"overall": scale * len(reward_input["response"])}
"""
FORMS = (
    PLAIN,
    ASYNCHRONOUS,
    RETURNS_A_COROUTINE,
    INSTANCE,
    DATA_CLASS,
    LIST_OF_INPUTS,
    ASYNCHRONOUS_LIST,
    SEQUENTIAL,
)


@pytest.mark.parametrize("form", FORMS)
async def test_every_form_is_called_with_the_answer_and_its_arguments(load, form):
    function = load(form, reward_kwargs={"scale": 0.5})
    assert await function(CALL) == {"compute_score": 1.0}


async def test_a_module_and_another_name(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_rewards_1.py").write_text(
        "def half(data_source, solution_str, **_):\n    return 0.5\n"
    )
    function = RewardFunction(RewardFunctionConfig(path="pkg://users_rewards_1", name="half"))
    assert function.style is CallStyle.VERL
    assert await function(CALL) == {"half": 0.5}
    assert function.place == f"half ({tmp_path}/users_rewards_1.py, line 1)"
    assert len(function.digest) == 64


def test_without_a_path_there_is_none():
    assert load_reward_function(RewardFunctionConfig()) is None


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        (
            "x = 1\nraise RuntimeError('no GPU here')\n",
            {},
            r"RuntimeError: no GPU here \(.*mine\.py, line 2\)",
        ),
        ("def f(:\n", {}, "SyntaxError"),
        ("import nothing_of_this_name\n", {}, "'nothing_of_this_name'.*PYTHONPATH"),
        ("import sys\nsys.exit(3)\n", {}, "SystemExit: 3"),
        (
            PLAIN,
            {"name": "score"},
            "name=score: .*mine.py defines no such function; it has compute_score",
        ),
        ("compute_score = 5\n", {}, "of type int, but must be a function"),
        ("class compute_score:\n    pass\n", {}, "of type type, but must be a function"),
        (
            PLAIN,
            {"reward_kwargs": {"bonus": 1}},
            r"compute_score \(.*mine\.py, line 2\): .*'bonus'",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_one_message(load, text, settings, message):
    with pytest.raises(UserError, match=rf"(?s)^reward\.custom_reward_function.*{message}"):
        load(text, **settings)


@pytest.mark.parametrize("path", ["nowhere.py", "pkg://nowhere.at_all", "."])
def test_a_path_that_leads_nowhere_is_named(path):
    with pytest.raises(UserError, match=rf"reward\.custom_reward_function\.path={path}"):
        RewardFunction(RewardFunctionConfig(path=path))


def test_a_file_that_is_no_python(tmp_path):
    (tmp_path / "reward.txt").write_text("x = 1\n")
    with pytest.raises(UserError, match=r"must end in \.py"):
        RewardFunction(RewardFunctionConfig(path=str(tmp_path / "reward.txt")))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "raise ValueError('no such unit')",
            r"raised ValueError: no such unit \(.*mine\.py, line 2\)",
        ),
        ("return next(iter([]))", "raised StopIteration"),  # which would never leave a thread
        ("import sys; sys.exit('enough')", "raised SystemExit: enough"),
        ("return float('nan')", "the term 'compute_score' is nan"),
        ("return {'score': 1, 'bonus': float('inf')}", r"the term 'compute_score\.bonus' is inf"),
        ("return 'right'", "returned str 'right'"),
    ],
)
@pytest.mark.parametrize("head", ["", "async "])
async def test_what_it_does_wrong_is_told_with_question_and_function(load, head, body, message):
    if head and "StopIteration" in message:
        message = "raised RuntimeError: coroutine raised StopIteration"
    function = load(f"{head}{VERL}    {body}\n")
    place = r"question 'q7': the reward function compute_score \(.*mine\.py, line 1\):? "
    with pytest.raises(RewardFunctionError, match=place + message):
        await asyncio.wait_for(function(CALL), 30)


async def test_a_function_that_waits_does_not_hold_the_event_loop(load):
    """Two calls meet in the function while the event loop continues, so neither waits for the
    other.
    """
    function = load(
        "import threading\nmeeting = threading.Barrier(3)\n"
        + VERL
        + "    meeting.wait(30)\n    return 1\n"
    )
    meeting = function._function.__globals__["meeting"]
    calls = [asyncio.create_task(function(CALL)) for _ in range(2)]
    while meeting.n_waiting < 2:  # the loop runs, or this would never end
        await asyncio.sleep(0.01)
    meeting.wait(30)
    assert await asyncio.gather(*calls) == [{"compute_score": 1.0}] * 2


async def test_its_threads_are_its_own(load):
    function = load(
        "import threading\n" + VERL + "    return {'score': 1, 'own': "
        "threading.current_thread().name.startswith('reward_function')}\n"
    )
    assert (await function(CALL))["compute_score.own"] == 1.0
