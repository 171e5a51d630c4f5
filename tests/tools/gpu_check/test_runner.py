"""What becomes of checks that crash, hang, fill the memory or need what is not there."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import psutil
import pytest

from tools.gpu_check.check import Check, Machine, Need, Outcome, Result, passed
from tools.gpu_check.registry import CHECKS
from tools.gpu_check.report import as_json, heading, table
from tools.gpu_check.runner import environment, run_checks, run_one

CPU, GPU = Machine(None, 0.0, vllm=False), Machine("a GPU", 80.0, vllm=True)
CHECK = Check("imports", "", 10)


def outcome(folder, code: str, limit_s: float = 20.0) -> Result:
    """Of a check whose process runs `code`, which finds the file of its result in `result`."""
    return run_one(
        CHECK,
        CPU,
        folder,
        limit_s,
        lambda check, result, own: [sys.executable, "-c", f"result = {str(result)!r}\n{code}"],
    )


def test_a_crash_is_a_failure_that_names_its_signal(tmp_path):
    found = outcome(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert (found.outcome, found.summary) == (Outcome.FAIL, "ended by SIGSEGV")


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_check_that_hangs_is_ended_with_all_it_started(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)"
    )
    began = time.monotonic()
    found = outcome(tmp_path, code, limit_s=3)
    assert time.monotonic() - began < 20
    assert (found.outcome, found.summary) == (Outcome.FAIL, "not ready after 3 s")
    child = int(found.log.split()[0])
    deadline = time.monotonic() + 10  # killed at once, gone when the system gets to it
    while is_alive(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_full_gpu_is_called_so(tmp_path):
    found = outcome(tmp_path, "raise RuntimeError('CUDA out of memory. Tried to allocate 20 GiB')")
    assert found.summary == "the GPU's memory is full"
    assert "Tried to allocate" in found.log


def test_an_error_shows_its_last_line(tmp_path):
    assert outcome(tmp_path, "raise ValueError('no head')").summary == "ValueError: no head"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"outcome": "MAYBE", "summary": ""}'])
def test_a_result_that_cannot_be_read_is_a_failure(tmp_path, text):
    assert outcome(tmp_path, f"open(result, 'w').write({text!r})").outcome is Outcome.FAIL


def test_a_result_of_an_earlier_run_does_not_count(tmp_path):
    good = json.dumps({"outcome": "PASS", "summary": "well"})
    assert outcome(tmp_path, f"open(result, 'w').write({good!r})").outcome is Outcome.PASS
    assert outcome(tmp_path, "").outcome is Outcome.FAIL


def test_what_a_machine_lacks_is_skipped_and_named(tmp_path):
    check = replace(CHECK, needs=frozenset(Need))
    ((_, found),) = run_checks([check], CPU, tmp_path)
    assert (found.outcome, found.summary) == (Outcome.SKIP, "needs a GPU and vLLM")
    assert GPU.lacks(check) == []


def test_checks_that_would_begin_too_late_are_skipped(tmp_path):
    found = [result.outcome for _, result in run_checks([CHECK, CHECK], CPU, tmp_path, limit_s=0)]
    assert found == [Outcome.SKIP, Outcome.SKIP]


def test_a_machine_without_a_gpu_says_so_everywhere(tmp_path):
    assert "No GPU" in heading(CPU)
    assert "proves nothing about a GPU" in table(CPU, []).title
    assert environment(CPU, tmp_path)["VERL_PLATFORM"] == "cpu"
    assert "VERL_PLATFORM" not in environment(GPU, tmp_path) or "VERL_PLATFORM" in __import__("os").environ


def test_the_report_holds_every_number():
    result = replace(passed("fine", seconds_a_layer=0.5), device="cuda")
    report = json.loads(as_json(GPU, [(CHECK, result)]))
    assert report["machine"]["gpu"] == "a GPU"
    assert report["checks"]["imports"]["numbers"] == {"seconds_a_layer": 0.5}
    assert report["checks"]["imports"]["outcome"] == "PASS"


def test_names_of_checks_are_unique():
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert len({check.module for check in CHECKS}) == len(CHECKS)
