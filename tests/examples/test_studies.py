from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from learning.process import Trainer

ROOT = Path(__file__).parents[2]
OPTIONS = {
    "anchoring": "--out --seeds --coef --updates --work --force",
    "bias_card": "--out --group-size --go-on --good --stop-reward --go-on-reward --good-reward --bad-reward "
    "--similarity --force",
    "learning": "--estimator --seeds --arm --out --steps",
    "small_model": "--workspace --system --collected --sft-steps --rl-minutes --dry-run",
    "proof": "",  # its options are those of its commands
}


@pytest.mark.parametrize("study", list(OPTIONS))
def test_a_study_has_the_options_of_its_documentation(study):
    command = f"PYTHONPATH=examples python -m {study}"
    assert command in (ROOT / "examples" / study / "__init__.py").read_text().splitlines()[2]
    main = importlib.import_module(f"{study}.__main__")
    shown = CliRunner().invoke(main.app, ["--help"], env={"COLUMNS": "200"}).output
    assert command in shown
    assert set(OPTIONS[study].split()) <= set(shown.split())


@pytest.mark.slow
def test_bad_input_of_a_study_is_one_line(tmp_path):
    command = [sys.executable, "-m", "bias_card", "--group-size", "1", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": "examples"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert "group size 1" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_trainer_finds_the_study_from_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    code = "import learning, pathlib; pathlib.Path('found').write_text(learning.__file__)"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "played.py").write_text(code)
    Trainer(("played",), (), tmp_path / "run").run()
    assert (tmp_path / "run" / "found").read_text() == str(ROOT / "examples" / "learning" / "__init__.py")
