"""What killed starts of a run have left behind is ended by the next one, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.watch.leftovers import (
    RUN_VARIABLE,
    START_FILE,
    earlier_starts,
    end_leftovers,
    note_start,
    read_start,
)
from tests.processes import ends

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
    began = "docagent_rl.watch.leftovers._began"
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
    monkeypatch.setattr("docagent_rl.watch.leftovers._SOCKETS", tmp_path)
    sockets = [tmp_path / f"rl-colocate-zmq-1-replica-0-rank-0-{run}.sock" for run in ("old", "new")]
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
    new.kill()
    assert ends(new.pid, within=60)
