"""The viewer on the command line: a file, errors, and a server that ends cleanly."""

import json
import shutil
import signal
import subprocess
import sys
import urllib.request

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.view import view_command
from docagent_rl.documents.upkeep import remove
from tests.commands.conftest import called
from tests.corpus import PAGES, store  # noqa: F401  a fixture
from tests.viewer_runs import run_folder, trajectory


@pytest.fixture
def folder(store, tmp_path):  # noqa: F811
    """Return a run with one trajectory that was played and one that was not."""
    good, masked = trajectory(store), trajectory(store, 1, status="masked", turns=[])
    masked.error = "judge down"
    return run_folder(tmp_path / "run", [good, masked])


def view(*arguments):
    return called(view_command, *arguments).output


def test_trajectories_are_written_as_one_file(folder, tmp_path):
    target = tmp_path / "case.html"
    view(folder, "--export", target, "--query", "status=finished")
    assert '"question": "When was it opened, 1?"' in target.read_text()
    with pytest.raises(UserError, match=r"case\.html"):
        view(folder, "--export", target, "--query", "status=masked")
    view(folder, "--export", target, "--query", "status=masked", "--force")
    assert "judge down" in target.read_text()


def test_images_that_the_store_lacks_are_counted(folder, store, tmp_path):  # noqa: F811
    empty = tmp_path / "other"
    shutil.copytree(store.path, empty)
    remove(empty, list(PAGES))
    target = tmp_path / "without.html"
    query = ["--query", "status=finished"]
    arguments = [folder, "--store", empty, "--export", target, *query]
    assert "without 3 images: name the run's document store" in view(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--query", "step=1"], "--export"),
        (["--export", "x.html", "--query", "ids=1"], "no trajectory"),
        (["--store", "nowhere"], "nowhere"),
    ],
)
def test_what_makes_no_sense_is_said(folder, arguments, message):
    with pytest.raises(UserError, match=message):
        view(folder, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("times", [1, 2])
def test_the_page_is_served_until_interrupted(folder, times):
    command = [sys.executable, "-m", "docagent_rl.cli", "view", str(folder), "--no-open"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        address, _, token = process.stdout.readline().split()[0].partition("?token=")
        assert address.startswith("http://127.0.0.1:")
        request = urllib.request.Request(
            f"{address}api/runs", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request) as answer:
            assert [run["name"] for run in json.load(answer)["runs"]] == [folder.name]
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "Traceback" not in process.stderr.read()
