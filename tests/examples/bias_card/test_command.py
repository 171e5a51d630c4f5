from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from bias_card.__main__ import app
from docagent_rl.advantages import registry
from docagent_rl.errors import UserError


def invoke(*args: object):
    return CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200"})


def test_a_page_of_the_users_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "bias_card.md").write_text("# My notes\n")
    assert isinstance(invoke("--out", tmp_path, "--group-size", 2).exception, UserError)
    assert [path.name for path in tmp_path.iterdir()] == ["bias_card.md"]
    assert (tmp_path / "bias_card.md").read_text() == "# My notes\n"


@pytest.mark.parametrize(
    "args", [("--group-size", 1), ("--go-on", 1.5), ("--similarity", 2), ("--good-reward", 0.5)]
)
def test_bad_input_writes_nothing(args: tuple, tmp_path: Path) -> None:
    result = invoke("--out", tmp_path / "card", *args)
    assert isinstance(result.exception, UserError)
    assert not (tmp_path / "card").exists()


def test_the_options_are_those_of_the_page_and_users_estimators_have_their_line(
    tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "halved.py").write_text(
        "from docagent_rl.advantages import Advantages, Card, Case, Family, register\n"
        "from docagent_rl.advantages.grpo import grpo\n"
        "CARD = Card(Family.OTHER, (Case('halved', {'share': 0.5}, 'g1 / 2', 'g2 / 2'),))\n"
        "@register('halved', card=CARD)\n"
        "def halved(inputs, *, share=1.0):\n"
        "    found = grpo(inputs, std='none', loo=True)\n"
        "    return Advantages(share * found.advantages, found.returns)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_ESTIMATORS", dict(registry._ESTIMATORS))
    options = ("--module", "halved", "--group-size", 3, "--go-on", 0.25, "--stop-reward", 3.0)
    result = invoke("--out", tmp_path / "card", *options)
    assert result.exit_code == 0, result.output
    assert (tmp_path / "card" / "bias_card.svg").is_file()
    page = (tmp_path / "card" / "bias_card.md").read_text()
    for text in ("p = 0.25 ", "1-p = 0.75 ", "a = 3", "G = 3"):
        assert text in page
    (line,) = (line for line in page.splitlines() if line.startswith("| halved |"))
    assert "| `g1 / 2` |" in line
    assert "0.500" in line
