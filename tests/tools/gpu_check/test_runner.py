"""Checks that crash, hang, fill the memory or lack something are reported."""

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from tests.processes import ends
from tools.gpu_check.check import Check, Machine, Need, Outcome, Result
from tools.gpu_check.runner import environment, run_checks, run_one

CPU, GPU = Machine(None, 0.0, vllm=False), Machine("a GPU", 80.0, vllm=True)
CHECK = Check("imports", "", 10)
LIMIT_S = 600.0


def outcome(folder, code: str) -> Result:
    """Return the result of a check whose process runs `code`; the variable `result` names the file
    of its result.
    """

    def command(check, result, own):
        return [sys.executable, "-c", f"result = {str(result)!r}\n{code}"]

    return run_one(CHECK, CPU, folder, LIMIT_S, command)


@pytest.mark.parametrize(
    ("code", "summary"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        (
            "raise RuntimeError('CUDA out of memory. Tried to allocate 20 GiB')",
            "the GPU's memory is full",
        ),
        ("raise ValueError('no head')", "ValueError: no head"),
        *(
            (f"open(result, 'w').write({text!r})", None)
            for text in ("{", "[]", '{"outcome": "MAYBE"}')
        ),
    ],
)
def test_a_failure_is_named(tmp_path, code, summary):
    found = outcome(tmp_path, code)
    assert (found.outcome, found.summary) == (Outcome.FAIL, summary or found.summary)


def test_a_check_that_hangs_is_ended_with_all_it_started(tmp_path, monkeypatch):
    class Hanging(subprocess.Popen):
        """A process whose time is over as soon as it has begun."""

        def wait(self, timeout=None):
            if timeout != LIMIT_S:
                return super().wait(timeout)
            while "\n" not in (tmp_path / CHECK.name / "log.txt").read_text():
                time.sleep(0.02)
            raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess, "Popen", Hanging)
    sleep = "import time; time.sleep(600)"
    code = (
        "import subprocess, sys, time\nchild = subprocess.Popen([sys.executable, '-c', "
        f"{sleep!r}])\n"
    )
    found = outcome(tmp_path, f"{code}print(child.pid, flush=True)\ntime.sleep(600)")
    assert found.outcome is Outcome.FAIL
    assert "600 s" in found.summary
    assert ends(int(found.log.split()[0]), within=60)


def test_what_a_machine_lacks_or_would_begin_too_late_is_not_run(tmp_path):
    check = replace(CHECK, needs=frozenset(Need))
    ((_, found),) = run_checks([check], CPU, tmp_path)
    assert (found.outcome, found.summary) == (Outcome.NOT_RUN, "needs a GPU and vLLM")
    assert GPU.lacks(check) == []
    late = [result.outcome for _, result in run_checks([CHECK, CHECK], CPU, tmp_path, limit_s=0)]
    assert late == [Outcome.NOT_RUN, Outcome.NOT_RUN]
    assert environment(CPU, tmp_path)["VERL_PLATFORM"] == "cpu"
    assert "VERL_PLATFORM" not in environment(GPU, tmp_path) or "VERL_PLATFORM" in os.environ
