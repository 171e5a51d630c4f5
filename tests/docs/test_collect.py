"""What docs/collect.md tells people to run and to write."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import get_args

import typer
import yaml
from typer.main import get_command

from docagent_rl.checks.recipe_list import recipe_names
from docagent_rl.collect.collection import FUNNEL, KEPT, VERDICTS
from docagent_rl.collect.config import CollectConfig, preset_names
from docagent_rl.collect.filters import Filter
from docagent_rl.collect.who import Who
from docagent_rl.commands.collect import collect_command
from docagent_rl.commands.data_curate import curate_command

PAGE = (Path(__file__).parents[2] / "docs" / "collect.md").read_text(encoding="utf-8")


def options(command):
    app = typer.Typer()
    app.command()(command)
    return {name for parameter in get_command(app).params for name in parameter.opts}


def test_the_commands_have_the_options_that_they_are_given():
    known = {"collect": options(collect_command), "data curate": options(curate_command)}
    lines = [
        line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
    ]
    seen = 0
    for line in lines:
        words = [*shlex.split(line), "", ""]
        for name, accepted in known.items():
            if line.startswith(f"docagent-rl {name} "):
                assert {word for word in words if word.startswith("--")} <= accepted, line
                seen += 1
        if words[1] == "collect":
            assert words[2] in recipe_names()
    assert seen == 3


def test_the_configuration_is_one():
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    config = CollectConfig.model_validate(yaml.safe_load(text))
    assert config.sessions == 3
    assert set(yaml.safe_load(text)) | {"source", "departures", "systems"} == set(CollectConfig.model_fields)


def test_every_player_preset_filter_and_file_is_named():
    kinds = [kind.model_fields["kind"].default for kind in get_args(get_args(Filter)[0])]
    for name in (*kinds, *preset_names(), *(who.value for who in Who), KEPT, FUNNEL, VERDICTS):
        assert f"`{name}`" in PAGE
