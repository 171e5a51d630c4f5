"""Processes of a run: those that it started, and those that earlier starts left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.watch.processes import (
    RUN_VARIABLE,
    START_FILE,
    Descendants,
    earlier_starts,
    end_leftovers,
    note_start,
    read_start,
    weights_of,
)
from tests.processes import ended, ends

HOLDER = """
import signal, time
from multiprocessing import shared_memory
signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = [shared_memory.SharedMemory(create=True, size=1 << 16) for _ in range(50)]
print(*(memory.name for memory in held), flush=True)
time.sleep(600)
"""
PARENT = (
    "import subprocess, sys; print(subprocess.Popen(['sleep', '600']).pid, flush=True); "
    "sys.stdin.read()"
)


@pytest.mark.slow
def test_shared_memory_goes_with_the_processes():
    """A process that must be killed cannot remove its shared memory; its resource tracker can, if
    it is not killed first.
    """
    family = Descendants()
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    memory = [Path("/dev/shm") / name for name in holder.stdout.readline().split()]
    assert len([each for each in memory if each.exists()]) == 50
    family.look()
    family.end()
    left = [each for each in memory if each.exists()]
    for each in left:
        each.unlink()
    assert not left
    assert not psutil.pid_exists(holder.pid)


@pytest.mark.slow
def test_orphans_are_remembered_and_others_left_alone():
    before = subprocess.Popen(["sleep", "600"])
    family = Descendants()
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
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


SLEEPER = """
import setproctitle, time
setproctitle.setproctitle("VLLM::EngineCore")
print(flush=True)
time.sleep(600)
"""


def test_starts_of_a_run_are_remembered(tmp_path):
    assert earlier_starts(tmp_path) == ()
    for run in ("a", "b"):
        note_start(tmp_path / "run", run)
    assert read_start(tmp_path / "run").earlier == ("a",)
    assert earlier_starts(tmp_path / "run") == ("b", "a")


def test_a_driver_that_runs_keeps_its_folder(tmp_path):
    note_start(tmp_path, "a")
    file = tmp_path / START_FILE
    values = json.loads(file.read_text())
    began = "docagent_rl.watch.processes._began"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(began, lambda pid: "7" if pid == 1 else None)
        file.write_text(json.dumps(values | {"driver": 1, "began": "7"}))
        with pytest.raises(UserError, match=r"run_dir=.*process 1 "):
            earlier_starts(tmp_path)
        for gone in ({"began": "8"}, {"boot": "another"}, {"driver": 2}):
            file.write_text(json.dumps(values | {"driver": 1, "began": "7"} | gone))
            assert earlier_starts(tmp_path) == ("a",)
    file.write_text("{")
    assert earlier_starts(tmp_path) == ()


def test_engines_of_earlier_starts_end_and_others_stay(tmp_path, monkeypatch):
    for place in ("_SOCKETS", "_MEMORY"):
        monkeypatch.setattr(f"docagent_rl.watch.processes.{place}", tmp_path)
    memory = [
        tmp_path / f"{weights_of(run)}{number}" for run in ("old", "new") for number in range(2)
    ]
    for each in memory:
        each.touch()
    sockets = [
        tmp_path / f"rl-colocate-zmq-1-replica-0-rank-0-{run}.sock" for run in ("old", "new")
    ]
    for socket in sockets:
        socket.touch()
    engines = []
    for run in ("old", "new"):
        environment = {**os.environ, RUN_VARIABLE: run, "SPT_NOENV": "1"}
        command = [sys.executable, "-c", SLEEPER]
        engines.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE))
        engines[-1].stdout.readline()
    old, new = engines
    (name,) = end_leftovers(["older", "old"])
    assert str(old.pid) in name
    old.wait(60)
    assert new.poll() is None
    assert [socket.exists() for socket in sockets] == [False, True]
    assert [each.exists() for each in memory] == [False, False, True, True]
    new.kill()
    assert ends(new.pid, within=60)
