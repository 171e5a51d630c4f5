from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.processes import ends
from tests.watch.conftest import until

pytestmark = pytest.mark.slow

LIMIT_S = 300


def test_a_death_ends_the_run_with_one_error_and_nothing_is_left(tmp_path):
    command = [sys.executable, str(Path(__file__).with_name("run_app.py")), str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def watched():
        """Pids of the actor, its child and the trainer, as soon as the watch has seen them."""
        assert process.poll() is None, process.stderr.read()
        files = tmp_path / "pids", tmp_path / "seen"
        pids, seen = (json.loads(file.read_text()) if file.exists() else [] for file in files)
        return pids if set(pids) <= set(seen) else []

    actor, *others = until(watched)
    family = psutil.Process(process.pid).children(recursive=True)
    os.kill(actor, signal.SIGKILL)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1
    (line,) = [line for line in said.splitlines() if line.startswith("docagent-rl: ")]
    assert f"AgentLoopWorker (process {actor} " in line
    assert "Traceback" not in said
    assert (tmp_path / "failure_traceback.txt").read_text()
    assert all(ends(pid, within=60) for pid in [*others, *(member.pid for member in family)])
