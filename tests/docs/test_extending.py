"""The functions that docs/extending.md shows are called as the page says."""

import re
from pathlib import Path

import pytest

from docagent_rl.rewards.custom.config import RewardFunctionConfig
from docagent_rl.rewards.custom.function import RewardFunction
from docagent_rl.rewards.custom.signature import CallStyle, RewardCall
from tools.public_names import PACKAGES

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLE = (Path(__file__).parents[2] / "examples" / "custom_system.py").read_text(encoding="utf-8")
SECTION = PAGE.partition("## A reward function")[2].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("place", "style", "numbers"),
    [
        (0, CallStyle.VERL, {"compute_score": 1.25, "compute_score.right": 1.0}),
        (1, CallStyle.EASYR1_BATCH, {"compute_score": 1.0}),
    ],
)
async def test_a_reward_function_of_the_page(tmp_path, place, style, numbers):
    (block,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    texts = re.split(r"(?=^# (?:verl|EasyR1): )", block, flags=re.MULTILINE)[1:]
    assert len(texts) == 2
    (tmp_path / "mine.py").write_text(texts[place])
    config = RewardFunctionConfig(path=str(tmp_path / "mine.py"), reward_kwargs={"bonus": 0.5})
    function = RewardFunction(config)
    assert function.style is style
    told = {"trajectory": {"turns": [{}, {}]}}
    assert await function(RewardCall("q", "mmlb", "Paris", "Paris", 9, told)) == numbers


def test_its_keys_are_those_of_the_section():
    given = set(re.findall(r"docagent\.reward_function\.(\w+)", SECTION))
    given |= set(re.findall(r"reward\.custom_reward_function\.(\w+)", SECTION))
    assert given == set(RewardFunctionConfig.model_fields)


def test_the_system_of_the_page_is_that_of_the_example():
    section = PAGE.partition("\n## A system\n")[2]
    (shown,) = re.findall(r"```python\n(SYSTEM = .*?)```", section, re.DOTALL)
    assert EXAMPLE.endswith(shown)


def test_the_page_and_the_examples_use_what_is_promised():
    used = set(re.findall(r"^from (docagent_rl[\w.]*) import", PAGE + EXAMPLE, re.MULTILINE))
    assert used <= {f"docagent_rl.{name}" for name in PACKAGES}
