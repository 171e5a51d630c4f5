"""Estimators of users, in real modules, before a run."""

from __future__ import annotations

import logging
import sys
from itertools import count

import pytest
from omegaconf import OmegaConf

from docagent_rl.advantages.registry import _ESTIMATORS
from docagent_rl.checks.preflight import check_statically
from docagent_rl.checks.recipe_check import composed
from docagent_rl.errors import UserError

GRPO, SPO = "vrag_rl_qwen2_5_vl_7b", "mm_doc_r1_qwen3_8b"
NUMBERS = count()
HEAD = "import torch\nfrom docagent_rl.advantages import AdvantageInputs, Advantages, register\n"
RIGHT = "    zeros = torch.zeros(inputs.mask.shape)\n    return Advantages(zeros + float({0}), zeros)\n"


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


def check(module: str, *overrides: str, estimator: str = "mine") -> dict:
    """Preflight's static part, on a configuration as the command line composes it; the options in the end."""
    run = composed(
        GRPO,
        ["+profile=cpu", f"docagent.modules=[{module}]", f"algorithm.adv_estimator={estimator}", *overrides],
    )
    return check_statically(run).advantage.options


def registered(signature: str, body: str, name: str) -> str:
    return f"{HEAD}\n@register('{name}')\ndef f({signature}):\n{body}"


def test_types_that_only_the_checker_imports_do_no_harm(module):
    name = module(
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nimport torch\n"
        "from docagent_rl.advantages import Advantages, register\n"
        "if TYPE_CHECKING:\n    from docagent_rl.advantages import AdvantageInputs\n"
        "@register('checker')\n"
        "def f(inputs: AdvantageInputs, *, decay: float = 0.9) -> Advantages:\n" + RIGHT.format("decay")
    )
    check(name, "+docagent.advantage.options.decay=0.5", estimator="checker")
    with pytest.raises(UserError, match=r"options\.decay='small' of estimator checker"):
        check(name, "+docagent.advantage.options.decay=small", estimator="checker")


def test_an_option_whose_own_type_is_missing_is_named(module):
    name = module(
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\nimport torch\n"
        "from docagent_rl.advantages import Advantages, register\n"
        "if TYPE_CHECKING:\n    from decimal import Decimal\n"
        "@register('untyped')\ndef f(inputs, *, decay: Decimal = 1):\n" + RIGHT.format("decay")
    )
    with pytest.raises(UserError, match=r"'Decimal' .*decay"):
        check(name, "+docagent.advantage.options.decay=1", estimator="untyped")


def test_options_need_no_star(module):
    name = module(registered("inputs, decay: float = 0.9", RIGHT.format("decay"), "starless"))
    assert check(name, "+docagent.advantage.options.decay=0.5", estimator="starless") == {"decay": 0.5}
    with pytest.raises(UserError, match=r"starless .*decay"):
        check(name, "+docagent.advantage.options.dekay=0.5", estimator="starless")


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
        ("(inputs.token_rewards, inputs.token_rewards)", "tuple: .*Advantages"),
        ("None", "Advantages"),
        ("Advantages(inputs.token_rewards.sum(1), inputs.token_rewards)", r"advantages .*\(8,\)"),
        ("Advantages(inputs.token_rewards, inputs.mask)", r"returns .*torch\.bool"),
        ("Advantages(inputs.token_rewards.tolist(), inputs.token_rewards)", "advantages .*list"),
        (
            "Advantages(inputs.token_reward, inputs.token_rewards)",
            r"AttributeError: .*token_reward.*line \d",
        ),
        ("Advantage(inputs.token_rewards, inputs.token_rewards)", r"NameError: .*'Advantage'"),
    ],
)
def test_a_result_of_another_form_is_refused_before_the_run(module, result, message):
    estimator = f"form_{next(NUMBERS)}"
    name = module(registered("inputs", f"    return {result}\n", estimator))
    with pytest.raises(UserError, match=rf"estimator {estimator}.*{message}"):
        check(name, estimator=estimator)


def test_what_may_be_the_made_up_batchs_fault_is_a_warning(module, caplog):
    body = "    if len(inputs.session) < 64:\n        raise ValueError('64 sessions at least')\n"
    name = module(registered("inputs", body, "large"))
    with caplog.at_level(logging.WARNING):
        check(name, estimator="large")
    (message,) = [r.getMessage() for r in caplog.records if r.name == "docagent_rl.checks.preflight"]
    assert message.startswith("estimator large fails on a made-up batch: ValueError: 64 sessions at least")


def test_the_options_of_another_estimator_are_cleared_by_null():
    def spo(*overrides):
        run = composed(SPO, ["+profile=cpu", "algorithm.adv_estimator=session_grpo", *overrides])
        return check_statically(run).advantage.options

    with pytest.raises(UserError, match=r"negatives: .*session_grpo .*options=null"):
        spo()
    with pytest.raises(UserError, match="has no such option"):  # Hydra merges
        spo("docagent.advantage.options={}")
    assert spo("docagent.advantage.options=null") == {}
    assert spo("~docagent.advantage.options") == {}
    own = "+docagent.advantage.options.std=biased"
    assert spo("docagent.advantage.options=null", own) == {"std": "biased"}


def test_verls_estimators_take_no_options_but_cleared_ones():
    with pytest.raises(UserError, match=r"options=null"):
        check_statically(composed(SPO, ["+profile=cpu", "algorithm.adv_estimator=grpo"]))
    cleared = ["algorithm.adv_estimator=grpo", "docagent.advantage.options=null"]
    check_statically(composed(SPO, ["+profile=cpu", *cleared]))


def test_a_recipe_file_clears_one_option_by_null():
    run = composed(SPO, ["+profile=cpu", "algorithm.adv_estimator=session_grpo"])
    change = {
        "docagent": {"advantage": {"options": {"negatives": None, "self_weight": None, "std": "biased"}}}
    }
    check_statically(OmegaConf.merge(run, change))


def test_options_that_do_not_go_together_are_found_before_the_run():
    recipe = ["+profile=cpu", "+docagent.advantage.options.broadcast=true"]
    with pytest.raises(UserError, match="broadcast"):
        check_statically(composed("alden_qwen2_5_vl_7b", recipe))
