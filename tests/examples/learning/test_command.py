import json

import pytest
from typer.testing import CliRunner

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from learning.__main__ import app
from learning.choices import Arm, Estimator
from learning.plan import LearnPaths, LearnSettings, RunKey
from learning.results import RunResult, Scores, read_results
from learning.warm_start import CHOICE


def scores(right):
    """Return the scores of fifty questions."""
    return Scores((0.2,) * (50 - right) + (1.0,) * right, (0.0,) * (50 - right) + (1.0,) * right)


@pytest.fixture
def root(tmp_path):
    """Return a folder in which everything that the command would make already exists."""
    paths = LearnPaths(tmp_path.resolve())
    atomic_write(paths.task.workspace / "task.txt", f"{LearnSettings().task}\n")
    atomic_write(paths.warm_start(0) / CHOICE, "{}")
    for arm, right in ((Arm.REWARD, 45), (Arm.SHUFFLED, 10)):
        before, after, blank = scores(10), scores(right), scores(0)
        result = RunResult(
            Estimator.GRPO, arm, 0, 60, 300.0, before, after, blank, blank, (0.4,) * 60
        )
        atomic_write(paths.run(RunKey(Estimator.GRPO, arm, 0)) / "result.json", result.to_json())
    return tmp_path


def test_what_is_done_is_shown_and_published_and_kept(root):
    def invoke(*options):
        return CliRunner().invoke(app, [*options, "--out", str(root)])

    # files of the users are left alone
    (root / "results.json").write_text("mine")
    assert isinstance(invoke().exception, UserError)
    assert (root / "results.json").read_text() == "mine"
    (root / "results.json").unlink()
    done = invoke("--estimator", "grpo", "--seeds", "0")
    assert done.exit_code == 0, done.output
    assert [r.arm for r in read_results(root / "results.json")] == [Arm.REWARD, Arm.SHUFFLED]
    assert (root / "learning.svg").is_file()
    assert "0.360" in done.output  # warm start: a fifth right
    assert "0.920" in done.output  # trained: nine in ten right
    assert json.loads((root / "settings.json").read_text())["steps"] == 60
    # another length needs another folder
    assert isinstance(invoke("--steps", "5").exception, UserError)
