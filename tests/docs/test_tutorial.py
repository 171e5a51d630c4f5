"""All blocks of docs/tutorial.md work, in their order."""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from docagent_rl import cli

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BUILT = frozenset({"my_reward", "my_estimator"})
"""Modules that the page writes."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Work in an empty folder, whose modules and those of the examples can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in BUILT:
        sys.modules.pop(name, None)


def commands(text: str) -> None:
    for line in text.splitlines():
        name, *arguments = shlex.split(line)
        assert name == "docagent-rl"
        result = CliRunner().invoke(cli.app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, f"{line}\n{result.output}"


@pytest.mark.slow
def test_every_block_works_in_turn(folder):
    names: dict[str, Any] = {}
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    assert {kind for kind, _ in blocks} == {"python", "bash"}
    for number, (kind, text) in enumerate(blocks, start=1):
        if kind == "bash":
            commands(text)
        else:
            exec(compile(text, f"{PAGE.name}, block {number}", "exec"), names)
    assert names["trajectory"].reward == pytest.approx(0.95)
    assert (folder / "work" / "random" / "trajectories.jsonl").is_file()
