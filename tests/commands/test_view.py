from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.view import view_command
from docagent_rl.lab.viewer.export import Build
from tests.commands.conftest import called
from tests.corpus import store  # noqa: F401  a fixture
from tests.viewer_runs import run_folder, sheet, shown, trajectory


@pytest.fixture
def folder(store, tmp_path):  # noqa: F811
    """A run of one trajectory that was played and one that was not."""
    good, masked = (
        trajectory(store, said="[bold]no markup[/bold]"),
        trajectory(store, 1, status="masked", turns=[]),
    )
    masked.error = "judge down"
    good.turns[0].info["effect"]["pages"][0]["gold"] = True
    good.turns[0].observation += shown(sheet(store, "K#1", "K#2"))
    return run_folder(tmp_path / "run", [good, masked])


@pytest.fixture
def file(folder):
    return folder / "trajectories" / "1.jsonl"


def view(*arguments):
    return called(view_command, *arguments).output


def test_a_trajectory_is_readable(file):
    output = view("--text", file, "--number", 1)
    hits = (
        "K#3 (rank 2, score 2.00, gold)",
        "shown at 84x84]",
        "[sheet of 2 pieces of K#1, K#2 shown at",
    )
    for piece in ("When was it opened, 1?", "[bold]no markup[/bold]", "40 tokens", *hits):
        assert piece in output


def test_table_filters_and_picture(file, tmp_path):
    assert view(file, "--table").count("q1") == 2
    output = view(file, "--status", "masked", "--svg", tmp_path / "x.svg")
    assert "judge down" in output
    assert "<svg" in (tmp_path / "x.svg").read_text()


def test_trajectories_are_written_as_one_file_and_the_funnel_is_drawn(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Build, "shipped", lambda: Build("run()", ""))
    target = tmp_path / "case.html"
    view(folder, "--export", target, "--query", "status=finished")
    assert '"question": "When was it opened, 1?"' in target.read_text()
    with pytest.raises(UserError, match=r"case\.html"):
        view(folder, "--export", target, "--query", "status=masked")
    view(folder, "--export", target, "--query", "status=masked", "--force")
    assert "judge down" in target.read_text()
    view(folder, "--funnel", tmp_path / "funnel.svg")
    picture = (tmp_path / "funnel.svg").read_text()
    assert "looked at" in picture
    assert ">train" in picture  # validations are apart


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN", "--trajectory", "1"], "--export"),
        (["RUN", "--export", "x.html", "--trajectory", "1"], "no trajectory"),
        (["RUN", "--store", "nowhere"], "nowhere"),
        (["RUN", "--funnel", "x.svg", "--by", "x"], "by='x'"),
        (["RUN", "RUN", "--text"], "one run"),
    ],
)
def test_what_makes_no_sense_is_said(folder, arguments, message):
    with pytest.raises(UserError, match=message):
        view(*(folder if each == "RUN" else each for each in arguments))


@pytest.mark.slow
def test_the_page_is_served_until_interrupted(folder):
    command = [sys.executable, "-m", "docagent_rl.cli", "view", str(folder), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address, _, token = process.stdout.readline().split()[0].partition("?token=")
        assert address.startswith("http://127.0.0.1:")
        request = urllib.request.Request(f"{address}api/runs", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            assert [run["name"] for run in json.load(answer)["runs"]] == [folder.name]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
