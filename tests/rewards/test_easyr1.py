"""Our rewards under EasyR1's calling convention (verl/workers/reward/function.py, 0.3.2 and later)."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.rewards import easyr1

FILE = Path(easyr1.__file__)


def loaded(monkeypatch) -> ModuleType:
    """As EasyR1 loads a reward function: a file, under a name of its own."""
    spec = importlib.util.spec_from_file_location("custom_reward_fn", FILE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "custom_reward_fn", module)
    spec.loader.exec_module(module)
    return module


def reward_input(response: str, truth: str) -> dict:
    return {"response": response, "response_length": len(response.split()), "ground_truth": truth}


@pytest.mark.parametrize("name", ["rule", "exact", "anls", "recall"])
def test_a_batch_is_scored_in_its_order(name, monkeypatch):
    module = loaded(monkeypatch)
    assert module.REWARD_TYPE == "batch"
    function = partial(getattr(module, name), format_weight=0.2)
    truth = easyr1.reference_text("How many people work there?", ["1,204"])
    inputs = [
        reward_input("<think>hm, 7?</think><answer>1,204</answer>", truth),
        reward_input("1,204", truth),
        reward_input("<answer>Paris</answer>", truth),
    ]
    right, untagged, wrong = function(inputs)
    assert right == {"overall": pytest.approx(1), "format": 1, "accuracy": 1}
    assert untagged == {"overall": pytest.approx(0.8), "format": 0, "accuracy": 1}
    assert wrong == {"overall": pytest.approx(0.2), "format": 1, "accuracy": 0}
    assert [each["overall"] for each in getattr(module, name)(inputs)] == [1, 1, 0]


def test_the_best_of_several_references_counts_and_lists_are_whole():
    several = easyr1.reference_text("O\u00f9?", ["New York", "NYC"])
    assert "O\u00f9?" in several
    items = easyr1.reference_text("Which?", ["red; green"])
    found = easyr1.rule(
        [reward_input("NYC", several), reward_input("red and green", items), reward_input("red", items)]
    )
    assert [each["accuracy"] for each in found] == [1, 1, 0]


def test_a_plain_text_is_the_one_reference():
    (found,) = easyr1.anls([reward_input("<answer>annual reports</answer>", "annual report")])
    assert found["accuracy"] == pytest.approx(1 - 1 / 14)
    (found,) = easyr1.exact([reward_input("3", "3")])
    assert found["accuracy"] == 1


def test_keywords_of_the_configuration_arrive():
    inputs = [reward_input("annual", "annual report")]
    assert easyr1.anls(inputs)[0]["accuracy"] == 0
    assert easyr1.anls(inputs, threshold=0.3)[0]["accuracy"] == pytest.approx(6 / 13)


@pytest.mark.parametrize("text", ["", "<answer>a</answer><answer>b</answer>", "<answer>open", "</think>"])
def test_a_response_without_one_answer_has_no_form(text):
    assert easyr1.rule([reward_input(text, "a")])[0]["format"] == 0


def test_an_answer_in_the_thoughts_does_not_count():
    response = "<think><answer>1</answer></think><answer>2</answer>"
    assert easyr1.final_answer(response) == "2"


def test_mistakes_of_the_configuration_are_named():
    with pytest.raises(UserError, match=r"data\.answer_key=reference"):
        easyr1.rule([{"response": "a", "response_length": 1, "ground_truth": ["a"]}])
    with pytest.raises(UserError, match="format_weight 2"):
        easyr1.rule([], format_weight=2)


def test_what_easyr1_cannot_share_is_not_imported():
    code = (
        "import importlib.util, json, sys\n"
        f"spec = importlib.util.spec_from_file_location('custom_reward_fn', {str(FILE)!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "found = module.rule([{'response': 'yes', 'response_length': 1, 'ground_truth': 'yes'}])\n"
        "shared = {'verl', 'torch', 'transformers', 'ray', 'vllm', 'tensordict'} & set(sys.modules)\n"
        "print(json.dumps([sorted(shared), found[0]['overall']]))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    assert json.loads(output) == [[], 1.0]


def test_the_module_prints_its_path():
    command = [sys.executable, "-m", "docagent_rl.rewards.easyr1"]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert Path(output.strip()) == FILE
