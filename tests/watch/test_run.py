from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from docagent_rl.watch.family import Family
from tests.processes import ended, ends
from tests.watch.conftest import until

pytestmark = pytest.mark.slow

APP = Path(__file__).with_name("run_app.py")
LIMIT_S = 300


@pytest.fixture
def start(tmp_path):
    def run(fault: str) -> subprocess.Popen:
        command = [sys.executable, str(APP), fault, str(tmp_path)]
        return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    return run


def pids_that_are_watched(process: subprocess.Popen, folder: Path) -> list[int]:
    """Of the actor, its child and the trainer, as soon as the watch has seen the child."""

    def found():
        assert process.poll() is None, process.stderr.read()
        files = folder / "pids", folder / "seen"
        pids, seen = (json.loads(file.read_text()) if file.exists() else [] for file in files)
        return pids if set(pids) <= set(seen) else []

    return until(found)


@pytest.mark.parametrize(("victim", "name"), [(0, "AgentLoopWorker"), (2, "TaskRunner")])
def test_a_death_ends_the_run_with_one_error_and_nothing_is_left(start, tmp_path, victim, name):
    process = start("death")
    pids = pids_that_are_watched(process, tmp_path)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(pids[victim], signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    (line,) = [line for line in said.splitlines() if line.startswith("docagent-rl: ")]
    assert f"{name} (process {pids[victim]} " in line
    assert "Traceback" not in said
    assert (tmp_path / "failure_traceback.txt").read_text()
    assert all(ends(pid, within=60) for pid in [*pids, *(member.pid for member in family)])


def test_a_trainer_without_a_place_in_ray_is_one_error(start):
    process = start("places")
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    assert said.count("docagent-rl: ") == 1
    assert "TaskRunner with 1 CPU" in said


def test_orphans_are_remembered_and_others_left_alone():
    before = subprocess.Popen(["sleep", "600"])
    family = Family()
    script = (
        "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    orphan = int(parent.stdout.readline())
    family.look()
    parent.kill()
    parent.wait()
    assert not ended(orphan)
    family.end()
    assert ends(orphan)
    assert before.poll() is None
    before.kill()
    before.wait()
