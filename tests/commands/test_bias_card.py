from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from docagent_rl.cli import app
from docagent_rl.errors import UserError


def invoke(*args: object):
    return CliRunner().invoke(app, ["bias-card", *map(str, args)], env={"COLUMNS": "200"})


def test_the_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        result = invoke("--out", tmp_path / name, "--group-size", 3, "--go-on", 0.5)
        assert result.exit_code == 0, result.output
        assert "fixed_horizon" in result.output
        assert "scaled by u" in result.output
    for file in ("bias_card.md", "bias_card.svg"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    page = (tmp_path / "one" / "bias_card.md").read_text()
    assert "p = 0.5" in page
    assert "The card, G = 3" in page


@pytest.mark.parametrize(
    "args", [("--group-size", 1), ("--go-on", 1.5), ("--similarity", 2), ("--good-pay", 0.5)]
)
def test_bad_input_writes_nothing(args: tuple, tmp_path: Path) -> None:
    result = invoke("--out", tmp_path / "card", *args)
    assert isinstance(result.exception, UserError)
    assert not (tmp_path / "card").exists()


def test_help_has_an_example() -> None:
    assert "docagent-rl bias-card --group-size 8" in invoke("--help").output
