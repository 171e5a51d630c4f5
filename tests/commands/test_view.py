from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request

import pytest
import typer
from typer.testing import CliRunner

from docagent_rl.commands.view import view_command
from docagent_rl.errors import UserError
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.archive import write_trajectories
from docagent_rl.viewer.export import Build

IMAGE = {"page": "report#3", "page_hash": "h", "raster": [0, 0, 100, 200], "size": [56, 112]}
SHEET = {"canvas": [10, 10], "size": [28, 28], "tiles": [{"image": IMAGE, "at": [0, 0]}]}


@pytest.fixture
def file(tmp_path):
    info = {"action": {"kind": "search"}, "valid": True, "effect": {"kind": "pages", "pages": [
        {"page": "report#3", "rank": 1, "score": 2.5, "gold": True}]}}  # fmt: skip
    parts = [{"text": "[bold]not markup[/bold]"}, {"image": IMAGE}, {"image": SHEET}]
    turn = TrajectoryTurn(
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
    return CliRunner().invoke(app, ["--text", *(str(a) for a in arguments)], env={"COLUMNS": "120"})


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


def test_the_folder_of_a_run_is_shown(file, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "sessions.jsonl").write_bytes(file.read_bytes())
    assert run(folder, "--table").output == run(file, "--table").output


def test_a_folder_without_sessions_names_what_it_holds(tmp_path):
    (tmp_path / "trajectories").mkdir()
    (tmp_path / "trajectories" / "3.jsonl").touch()
    with pytest.raises(UserError, match=r"sessions\.jsonl.*3\.jsonl"):
        raise run(tmp_path).exception


def called(*arguments):
    app = typer.Typer()
    app.command()(view_command)
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "120"})


@pytest.fixture
def folder(file):
    """The run that the trajectory file belongs to."""
    return file.parent.parent


@pytest.mark.parametrize("option", ["--table", "--number=1", "--status=masked", "--limit=1", "--question=q1"])
def test_options_of_the_terminal_mean_the_terminal(file, option):
    assert "q1" in called(file, option).output


def test_sessions_are_written_as_one_file(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Build, "shipped", lambda: Build("run()", ""))
    target = tmp_path / "case.html"
    assert f"written: {target}" in called(folder, "--export", target, "--query", "status=finished").output
    assert '"question": "Which?"' in target.read_text()
    again = called(folder, "--export", target, "--query", "status=masked").exception
    assert isinstance(again, UserError)
    assert called(folder, "--export", target, "--query", "status=masked", "--force").exception is None
    assert "judge down" in target.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--session", "1"], "name --export as well"),
        (["--export", "x.html"], "takes one of"),
        (["--export", "x.html", "--session", "1"], "no session matches"),
        (["--store", "nowhere"], "no such store"),
    ],
)
def test_what_makes_no_sense_is_said(folder, arguments, message):
    error = called(folder, *arguments).exception
    assert isinstance(error, UserError)
    assert message in str(error)


def test_the_funnel_is_drawn(folder, tmp_path):
    records = folder / "trajectories" / "1.jsonl"
    line = json.loads(records.read_text().splitlines()[0])
    line["record"]["evidence_pages"] = [3]
    records.write_text(json.dumps(line) + "\n")
    target = tmp_path / "funnel.svg"
    assert f"written: {target}" in called(folder, "--funnel", target).output
    assert "looked at" in target.read_text()
    assert "by='x'" in str(called(folder, "--funnel", target, "--by", "x").exception)


def test_runs_are_named_once(folder):
    error = called(folder, folder).exception
    assert isinstance(error, UserError)
    assert "twice" in str(error)
    assert "one run" in str(called(folder, folder, "--text").exception)


@pytest.mark.slow
def test_the_page_is_served_until_interrupted(folder):
    program = "from docagent_rl.cli import main; main()"
    command = [sys.executable, "-c", program, "view", str(folder), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        for _ in range(100):
            with urllib.request.urlopen(f"{address}api/runs") as answer:
                (run,) = json.load(answer)["runs"]
            if run["sessions"] == 2:
                break
            time.sleep(0.1)
        assert (run["sessions"], run["name"]) == (2, folder.name)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert "Traceback" not in process.stderr.read()
