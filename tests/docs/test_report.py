"""The page about reports, against the code."""

from __future__ import annotations

import re
from pathlib import Path

from docagent_rl.eval.report.bootstrap import DRAWS, LEVEL
from docagent_rl.eval.report.paired_grids import MOST
from docagent_rl.eval.report.permutation import EXACT
from docagent_rl.eval.scoring.protocols import PROTOCOLS

PAGE = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")


def test_every_benchmark_has_a_line_and_no_other_does():
    lines = [line for line in PAGE.splitlines() if line.startswith("| `")]
    named = {name: line for line in lines for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    assert set(named) == set(PROTOCOLS)
    for name, protocol in PROTOCOLS.items():
        assert bool(protocol.experts) is bool(named[name].split("|")[3].strip())


def test_figures_are_those_of_the_code():
    assert f"{LEVEL:.0%}".replace("%", " %") in PAGE
    assert f"all ways up to {EXACT} documents" in PAGE
    assert f"({MOST} in the tables" in PAGE
    assert DRAWS == 10_000


def test_options_that_are_named_are_there():
    from typer.testing import CliRunner

    from docagent_rl.cli import app

    text = CliRunner().invoke(app, ["report", "--help"], env={"COLUMNS": "200"}).output
    for option in set(re.findall(r"`(--[a-z-]+)", PAGE)):
        assert option in text, option
