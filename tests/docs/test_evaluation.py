"""What docs/evaluation.md tells people to run and to set."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docagent_rl import cli
from docagent_rl.checks.play_check import play_config
from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.config import DocAgentConfig, plain
from docagent_rl.eval.agent import Agent
from docagent_rl.systems import get_system

PAGE = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
COMMANDS = [line for line in PAGE.splitlines() if line.startswith("docagent-rl ")]


def test_every_agent_is_described():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [agent.value for agent in Agent]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_have_the_options_that_are_shown(line):
    _, name, *rest = shlex.split(line)
    help_text = CliRunner().invoke(cli.app, [name, "--help"], env={"COLUMNS": "250"}).output
    for option in (word for word in rest if word.startswith("--")):
        assert option in help_text
    if name == "eval":
        assert rest[0] in recipe_names()


@pytest.mark.parametrize("key", re.findall(r"`(docagent\.env\.\w+=\w+)`", PAGE))
def test_keys_of_baselines_are_there(key):
    run = play_config("alden_qwen2_5_vl_7b", Agent.WHOLE_DOCUMENT, [key])
    parsed = DocAgentConfig.parse(plain(run.docagent))
    name, _, value = key.removeprefix("docagent.env.").partition("=")
    assert str(getattr(get_system(parsed.system).parse_config(parsed.env), name)) == value
