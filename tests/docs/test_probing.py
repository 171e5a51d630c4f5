"""What docs/probing.md says of conditions and options."""

import re
from pathlib import Path

from typer.testing import CliRunner

from docagent_rl import cli
from docagent_rl.eval.probe.conditions import Condition

PAGE = (Path(__file__).parents[2] / "docs" / "probing.md").read_text()


def test_every_condition_is_described():
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [each.value for each in Condition]


def test_options_are_there():
    for name in ("probe", "rescore"):
        line = re.search(rf"`docagent-rl {name} ([^`]*)`", PAGE)
        shown = CliRunner().invoke(cli.app, [name, "--help"], env={"COLUMNS": "250"}).output
        assert all(option in shown for option in re.findall(r"--[a-z-]+", line[1]))
    assert "--step" in shown
    assert "--validation" in shown
