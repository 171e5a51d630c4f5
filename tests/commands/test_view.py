from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from docagent_rl.commands.view import view_command
from docagent_rl.errors import UserError
from docagent_rl.rollout.trajectory import Status, Trajectory, TurnRecord
from docagent_rl.trainer.archive import write_trajectories

IMAGE = {"page": "report#3", "page_hash": "h", "raster": [0, 0, 100, 200], "size": [56, 112]}
SHEET = {"canvas": [10, 10], "size": [28, 28], "tiles": [{"image": IMAGE, "at": [0, 0]}]}


@pytest.fixture
def file(tmp_path):
    info = {"action": {"kind": "search"}, "valid": True, "effect": {"kind": "pages", "pages": [
        {"page": "report#3", "rank": 1, "score": 2.5, "gold": True}]}}  # fmt: skip
    parts = [{"text": "[bold]not markup[/bold]"}, {"image": IMAGE}, {"image": SHEET}]
    turn = TurnRecord(
        "<search>x</search>", "end_of_turn", [1, 2], [-0.1, -0.2],
        reward=0.25, terms={"ndcg": 0.5}, info=info,
        observation=[{"role": "user", "parts": parts}], observation_tokens=9,
    )  # fmt: skip
    record = {"question_id": "q1", "question": "Which?", "answers": ["this"], "doc_id": "report"}
    good = Trajectory("u", 0, 1, "train", record, "vrag_rl", status=Status.FINISHED.value, turns=[turn])
    masked = Trajectory("u", 1, 1, "train", record, "vrag_rl", status=Status.MASKED.value, error="judge down")
    return write_trajectories(tmp_path, 1, [good, masked])


def run(*arguments):
    app = typer.Typer()
    app.command()(view_command)
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})


def test_a_trajectory_is_readable(file):
    output = run(file, "--number", 1).output
    hit = "report#3 (rank 1, score 2.50, gold)"
    for piece in ("Which?", "<search>x</search>", hit, "ndcg 0.5000", "9 tokens"):
        assert piece in output
    assert "[bold]not markup[/bold]" in output
    assert "[image report#3 (0, 0)-(100, 200) shown at 56x112]" in output
    assert "[sheet of 1 pieces of report#3 shown at 28x28]" in output


def test_table_filters_and_picture(file, tmp_path):
    assert run(file, "--table").output.count("q1") == 2
    output = run(file, "--status", "masked", "--svg", tmp_path / "x.svg").output
    assert "judge down" in output
    assert "Which?" in output
    picture = (tmp_path / "x.svg").read_text()
    assert "<svg" in picture
    assert "@font-face" not in picture


def test_nothing_matches(file):
    assert isinstance(run(file, "--question", "q9").exception, UserError)
