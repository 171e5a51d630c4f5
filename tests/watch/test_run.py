from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from docagent_rl.watch.family import Family
from tests.processes import ended, ends

pytestmark = pytest.mark.slow

APP = Path(__file__).with_name("run_app.py")
LIMIT_S, START_S = 60, 180


def start(fault: str, folder: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, str(APP), fault, str(folder)],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def read_pids(process: subprocess.Popen, folder: Path) -> list[int]:
    deadline = time.monotonic() + START_S
    while not (folder / "pids.json").is_file() or not (folder / "pids.json").read_text():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return json.loads((folder / "pids.json").read_text())


@pytest.mark.parametrize(("victim", "name"), [(0, "AgentLoopWorker"), (2, "TaskRunner")])
def test_a_death_ends_the_run_with_one_error_and_nothing_is_left(tmp_path, victim, name):
    process = start("death", tmp_path)
    pids = read_pids(process, tmp_path)
    time.sleep(1.0)  # a look of the watch: the child is known before it is an orphan
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(pids[victim], signal.SIGKILL)
    began = time.monotonic()
    _, said = process.communicate(timeout=LIMIT_S)
    assert time.monotonic() - began < LIMIT_S
    assert process.returncode == 1
    lines = [line for line in said.splitlines() if line.startswith("docagent-rl: ")]
    assert len(lines) == 1
    assert f"{name} (process {pids[victim]} on" in lines[0]
    assert "Start again: the run goes on from its last checkpoint." in said
    assert "Traceback" not in said
    assert (tmp_path / "failure_traceback.txt").read_text()
    assert ends(pids[1])
    assert all(ends(member.pid, within=5) for member in family)


def test_an_error_of_the_trainer_itself_stays_what_it_is(tmp_path):
    process = start("error", tmp_path)
    _, said = process.communicate(timeout=START_S)
    assert process.returncode == 1
    assert "ValueError: a bug of the trainer" in said
    assert "docagent-rl: " not in said


def test_what_the_trainer_cannot_work_with_is_one_message(tmp_path):
    process = start("settings", tmp_path)
    _, said = process.communicate(timeout=START_S)
    assert process.returncode == 1
    assert "docagent-rl: node 10.0.0.2: docagent.store=/w/store is not there\n  mount it\n" in said
    assert said.count("docagent-rl: ") == 1
    assert "Traceback" not in said
    assert "UserError" in (tmp_path / "failure_traceback.txt").read_text()


def test_a_run_that_ends_well_is_left_alone(tmp_path):
    process = start("fine", tmp_path)
    pids = read_pids(process, tmp_path)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, said
    assert "docagent-rl: " not in said
    assert all(map(ends, pids))


def test_a_trainer_without_a_place_in_ray_is_one_error(tmp_path):
    process = start("places", tmp_path)
    _, said = process.communicate(timeout=START_S)
    assert process.returncode == 1
    assert "Ray has no place for the actor TaskRunner with 1 CPU, which waited for 3 s" in said
    assert said.count("docagent-rl: ") == 1


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
