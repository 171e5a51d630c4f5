from __future__ import annotations

import re
from pathlib import Path

import yaml
from typer.testing import CliRunner

from docagent_rl.cli import app
from docagent_rl.endpoints.model_config import ModelConfig
from docagent_rl.generate.config import GenerateConfig, Kind
from docagent_rl.generate.draft import Stage

PAGE = (Path(__file__).parents[2] / "docs" / "generate.md").read_text(encoding="utf-8")
BLOCKS = dict(re.findall(r"```yaml\n# (\w+)\n(.*?)```", PAGE, re.DOTALL))


def test_the_configurations_can_be_used():
    config = GenerateConfig.model_validate(yaml.safe_load(BLOCKS["config"]))
    assert (config.temperature, config.filters) == (GenerateConfig().temperature, GenerateConfig().filters)
    endpoint = ModelConfig.model_validate(yaml.safe_load(BLOCKS["endpoint"]))
    assert endpoint.named
    defaults = ModelConfig()
    for name in ("concurrency", "max_tokens", "temperature", "timeout_s", "extra_body"):
        assert getattr(endpoint, name) == getattr(defaults, name)


def test_every_stage_and_kind_is_explained():
    table = PAGE[PAGE.index("| stage |") : PAGE.index("Answers are compared")]
    assert re.findall(r"^\| ([a-z][^|]*?) \|", table, re.MULTILINE)[1:] == [stage.value for stage in Stage]
    assert all(kind.value in BLOCKS["config"] for kind in Kind)


def test_options_are_those_of_the_commands():
    told = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    known = set()
    for command in ("generate", "convert", "show"):
        help_page = CliRunner().invoke(app, ["data", command, "--help"], env={"COLUMNS": "200"}).output
        known |= set(re.findall(r"--[a-z][a-z-]+", help_page))
    assert told <= known
