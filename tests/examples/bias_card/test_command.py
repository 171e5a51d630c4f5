"""The command, and the page and drawing in docs."""

from pathlib import Path
from xml.etree import ElementTree

from typer.testing import CliRunner

from bias_card.__main__ import app
from bias_card.card import Verdict, bias_card
from bias_card.page import bias_page
from bias_card.toy import Toy
from docagent_rl.advantages import registry
from docagent_rl.base.errors import UserError

DOCS = Path(__file__).parents[3] / "docs"


def invoke(*args):
    return CliRunner().invoke(app, [*map(str, args)], env={"COLUMNS": "200"})


def test_the_shipped_page_and_drawing_are_what_is_measured():
    card = list(bias_card())
    shipped = (DOCS / "bias_card.md").read_text(encoding="utf-8")
    assert bias_page(card, Toy(), 4, 0.6) == shipped, (
        "run `PYTHONPATH=examples python -m bias_card --out docs`"
    )
    tree = ElementTree.parse(DOCS / "bias_card.svg")
    texts = {element.text for element in tree.iter() if element.tag.endswith("}text")}
    assert {*(each.row.name.replace("`", "") for each in card), *map(str, Verdict)} <= texts


def test_a_page_of_the_users_is_left_alone(tmp_path):
    (tmp_path / "bias_card.md").write_text("# My notes\n")
    assert isinstance(invoke("--out", tmp_path, "--group-size", 2).exception, UserError)
    assert [path.name for path in tmp_path.iterdir()] == ["bias_card.md"]
    assert (tmp_path / "bias_card.md").read_text() == "# My notes\n"


def test_the_options_are_those_of_the_page_and_users_estimators_have_their_line(
    tmp_path, monkeypatch
):
    (tmp_path / "halved.py").write_text(
        "from docagent_rl.advantages import Advantages, register\n"
        "from docagent_rl.advantages.grpo import grpo\n"
        "@register('halved')\n"
        "def halved(inputs, *, share=0.5):\n"
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
    assert all(text in page for text in ("p = 0.25 ", "1-p = 0.75 ", "a = 3", "G = 3"))
    (line,) = (line for line in page.splitlines() if line.startswith("| `halved` |"))
    assert "0.500" in line
