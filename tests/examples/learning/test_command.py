from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write
from learning.__main__ import app
from learning.choices import Arm, Estimator
from learning.plan import LearnPaths, LearnSettings, RunKey
from learning.results import RunResult, Scores, read_results
from learning.warm_start import RECORD


@pytest.fixture
def root(tmp_path):
    """A folder in which everything that the command could make is there already."""
    paths = LearnPaths(tmp_path.resolve())
    atomic_write(paths.task.workspace / "task.txt", f"{LearnSettings().task}\n")
    atomic_write(paths.warm_start(0) / RECORD, "{}")
    for arm, right in ((Arm.REWARD, 45), (Arm.SHUFFLED, 10)):
        before = Scores((0.2,) * 40 + (1.0,) * 10, (0.0,) * 40 + (1.0,) * 10)
        after = Scores((0.2,) * (50 - right) + (1.0,) * right, (0.0,) * (50 - right) + (1.0,) * right)
        blank = Scores((0.2,) * 50, (0.0,) * 50)
        result = RunResult(Estimator.GRPO, arm, 0, 60, 300.0, before, after, blank, blank, (0.4,) * 60)
        atomic_write(paths.run(RunKey(Estimator.GRPO, arm, 0)) / "result.json", result.to_json())
    return tmp_path


def test_what_is_done_is_shown_and_published(root):
    done = CliRunner().invoke(app, ["--estimator", "grpo", "--seeds", "0", "--out", str(root)])
    assert done.exit_code == 0, done.output
    assert [r.arm for r in read_results(root / "results.json")] == [Arm.REWARD, Arm.SHUFFLED]
    assert (root / "learning.svg").is_file()
    assert "0.360" in done.output  # warm start: a fifth right
    assert "0.920" in done.output  # trained: nine in ten right
    assert json.loads((root / "settings.json").read_text())["steps"] == 60


def test_files_of_the_users_are_left_alone(root):
    (root / "results.json").write_text("mine")
    refused = CliRunner().invoke(app, ["--out", str(root)])
    assert isinstance(refused.exception, UserError)
    assert "choose another --out" in str(refused.exception)
    assert (root / "results.json").read_text() == "mine"


def test_another_length_needs_another_folder(root):
    first = CliRunner().invoke(app, ["--out", str(root)])
    assert first.exit_code == 0
    again = CliRunner().invoke(app, ["--out", str(root), "--steps", "5"])
    assert isinstance(again.exception, UserError)
    assert "other sizes" in str(again.exception)


def test_the_help_has_an_example():
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    assert "python -m learning --estimator grpo" in " ".join(shown.output.split())
