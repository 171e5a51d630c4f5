from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from docagent_rl.commands.view import view_command
from docagent_rl.errors import UserError
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.archive import write_trajectories
from docagent_rl.viewer.export import Build
from tests.commands.conftest import called

IMAGE = {"page": "report#3", "page_hash": "h", "raster": [0, 0, 100, 200], "size": [56, 112]}
SHEET = {"canvas": [10, 10], "size": [28, 28], "tiles": [{"image": IMAGE, "at": [0, 0]}]}


@pytest.fixture
def folder(tmp_path):
    """A run of one session that was played and one that was not."""
    page = {"page": "report#3", "rank": 1, "score": 2.5, "gold": True}
    info = {"action": {"kind": "search"}, "valid": True, "effect": {"kind": "pages", "pages": [page]}}
    parts = [{"text": "[bold]not markup[/bold]"}, {"image": IMAGE}, {"image": SHEET}]
    turn = TrajectoryTurn(
        "<search>x</search>", "end_of_turn", [1, 2], [-0.1, -0.2],
        reward=0.25, terms={"ndcg": 0.5}, info=info,
        observation=[{"role": "user", "parts": parts}], observation_tokens=9,
    )  # fmt: skip
    record = {"question_id": "q1", "question": "Which?", "answers": ["this"], "doc_id": "report"}
    good = Trajectory("u", 0, 1, "train", record, "vrag_rl", status=Status.FINISHED.value, turns=[turn])
    masked = Trajectory("u", 1, 1, "train", record, "vrag_rl", status=Status.MASKED.value, error="judge down")
    write_trajectories(tmp_path / "run", 1, [good, masked])
    return tmp_path / "run"


@pytest.fixture
def file(folder):
    return folder / "trajectories" / "1.jsonl"


def view(*arguments):
    found = called(view_command, *arguments)
    assert found.exit_code == 0, found.output
    return found.output


def test_a_trajectory_is_readable(file):
    output = view("--text", file, "--number", 1)
    hit = "report#3 (rank 1, score 2.50, gold)"
    for piece in ("Which?", "<search>x</search>", hit, "ndcg 0.5000", "9 tokens", "[bold]not markup[/bold]"):
        assert piece in output
    assert "[image report#3 (0, 0)-(100, 200) shown at 56x112]" in output
    assert "[sheet of 1 pieces of report#3 shown at 28x28]" in output


def test_table_filters_and_picture(file, tmp_path):
    assert view(file, "--table").count("q1") == 2
    output = view(file, "--status", "masked", "--svg", tmp_path / "x.svg")
    assert "judge down" in output
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_the_folder_of_a_run_is_shown(file, tmp_path):
    (tmp_path / "evaluation").mkdir()
    (tmp_path / "evaluation" / "sessions.jsonl").write_bytes(file.read_bytes())
    assert view(tmp_path / "evaluation", "--table") == view(file, "--table")


def test_sessions_are_written_as_one_file(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Build, "shipped", lambda: Build("run()", ""))
    target = tmp_path / "case.html"
    view(folder, "--export", target, "--query", "status=finished")
    assert '"question": "Which?"' in target.read_text()
    with pytest.raises(UserError, match=r"case\.html"):
        view(folder, "--export", target, "--query", "status=masked")
    view(folder, "--export", target, "--query", "status=masked", "--force")
    assert "judge down" in target.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN", "--session", "1"], "--export"),
        (["RUN", "--export", "x.html"], "one of"),
        (["RUN", "--export", "x.html", "--session", "1"], "no session"),
        (["RUN", "--store", "nowhere"], "nowhere"),
        (["RUN", "--funnel", "x.svg", "--by", "x"], "by='x'"),
        (["RUN", "--text", "--question", "q9"], ""),
        (["RUN", "RUN"], "twice"),
        (["RUN", "RUN", "--text"], "one run"),
    ],
)
def test_what_makes_no_sense_is_said(folder, arguments, message):
    with pytest.raises(UserError, match=message):
        view(*(folder if each == "RUN" else each for each in arguments))


def test_a_folder_without_sessions_names_what_it_holds(folder, file):
    file.rename(file.with_name("3.jsonl"))
    with pytest.raises(UserError, match=r"sessions\.jsonl.*3\.jsonl"):
        view(folder, "--text")


def test_the_funnel_is_drawn(folder, file, tmp_path):
    line = json.loads(file.read_text().splitlines()[0])
    line["record"]["evidence_pages"] = [3]
    file.write_text(json.dumps(line) + "\n")
    view(folder, "--funnel", tmp_path / "funnel.svg")
    assert "looked at" in (tmp_path / "funnel.svg").read_text()


@pytest.mark.slow
def test_the_page_is_served_until_interrupted(folder):
    command = [sys.executable, "-m", "docagent_rl.cli", "view", str(folder), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:")
        end, run = time.monotonic() + 120, {}
        while run.get("sessions") != 2 and time.monotonic() < end:
            with urllib.request.urlopen(f"{address}api/runs") as answer:
                (run,) = json.load(answer)["runs"]
            time.sleep(0.05)
        assert (run["sessions"], run["name"]) == (2, folder.name)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
