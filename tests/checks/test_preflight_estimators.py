"""Estimators of users, in real modules, before a run."""

from __future__ import annotations

import logging
import sys
from itertools import count

import pytest
from omegaconf import OmegaConf

from docagent_rl.advantages.registry import _ESTIMATORS
from docagent_rl.base.errors import UserError
from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import composed

NUMBERS = count()
HEAD = "import torch\nfrom docagent_rl.advantages import AdvantageInputs, Advantages, register\n"
CHECKER = "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
RIGHT = "    zeros = torch.zeros(inputs.mask.shape)\n    return Advantages(zeros + float(decay), zeros)\n"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes a module and names it; whatever it registers is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    before = dict(_ESTIMATORS)

    def write(text: str) -> str:
        name = f"users_estimator_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    _ESTIMATORS.clear()
    _ESTIMATORS.update(before)


def check(module: str, estimator: str = "mine", **options) -> dict:
    """Preflight's static part; the options in the end."""
    advantage = {"advantage": {"options": options}} if options else {}
    change = {"docagent": {"modules": [module], **advantage}, "algorithm": {"adv_estimator": estimator}}
    recipe = composed("vrag_rl_qwen2_5_vl_7b", ["+profile=cpu"])
    return check_statically(OmegaConf.merge(recipe, change)).advantage.options


def registered(signature: str, body: str, name: str = "mine") -> str:
    return f"{HEAD}\n@register('{name}')\ndef f({signature}):\n{body}"


def test_types_that_only_the_checker_imports_do_no_harm_unless_they_are_an_options(module):
    unread = CHECKER + "if TYPE_CHECKING:\n    from somewhere import Batch\n"
    name = module(unread + registered("inputs: Batch, *, decay: float = 0.9", RIGHT))
    check(name, decay=0.5)
    with pytest.raises(UserError, match=r"options\.decay='small' of estimator mine"):
        check(name, decay="small")
    name = module(unread + registered("inputs, *, decay: Batch = 1", RIGHT, "other"))
    with pytest.raises(UserError, match=r"'Batch' .*decay"):
        check(name, "other", decay=1)


def test_options_need_no_star(module):
    name = module(registered("inputs, decay: float = 0.9", RIGHT))
    assert check(name, decay=0.5) == {"decay": 0.5}
    with pytest.raises(UserError, match=r"mine .*decay"):
        check(name, dekay=0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\nraise RuntimeError('no GPU here')\n", r"RuntimeError: no GPU here \(.*\.py, line 2\)"),
        ("x = {}['key']\n", r"KeyError: 'key' \(.*\.py, line 1\)"),
        ("def f(:\n", r"SyntaxError: .*users_estimator_\d+\.py, line 1"),
        ("import nothing_of_this_name\n", "'nothing_of_this_name'"),
        (registered("", "    pass\n", "no_batch"), "estimator no_batch: "),
        (registered("inputs", "    pass\n", "spo"), "'spo'"),
    ],
)
def test_a_module_that_raises_is_one_message(module, text, message):
    name = module(text)
    with pytest.raises(UserError, match=rf"(?s)docagent\.modules: {name}.*{message}"):
        check(name)
    assert name not in sys.modules


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ("inputs.token_rewards", "Tensor: .*Advantages"),
        ("Advantages(inputs.token_rewards.sum(1), inputs.token_rewards)", r"advantages .*\(8,\)"),
        ("Advantages(inputs.token_reward, inputs.mask)", r"AttributeError: .*token_reward.*line \d"),
        ("Advantage(inputs.token_rewards, inputs.token_rewards)", r"NameError: .*'Advantage'"),
    ],
)
def test_a_result_of_another_form_is_refused_before_the_run(module, result, message):
    name = module(registered("inputs", f"    return {result}\n"))
    with pytest.raises(UserError, match=rf"estimator mine.*{message}"):
        check(name)


def test_what_may_be_the_made_up_batchs_fault_is_a_warning(module, caplog):
    body = "    if len(inputs.trajectory) < 64:\n        raise ValueError('64 trajectories at least')\n"
    with caplog.at_level(logging.WARNING):
        check(module(registered("inputs", body)))
    (message,) = [r.getMessage() for r in caplog.records if r.name == "docagent_rl.checks.configuration"]
    assert message.startswith("estimator mine")
    assert "ValueError: 64 trajectories at least" in message
