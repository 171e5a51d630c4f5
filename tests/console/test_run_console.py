"""The console in processes of its own, whose output is really redirected."""

import json
import os
import signal
import subprocess
import sys

import pytest

from docagent_rl.console.failing import reason
from docagent_rl.console.run_console import LOG, earlier_validation

APP = """
import os, sys, time
from pathlib import Path
from docagent_rl.console import run_console as module
from docagent_rl.base.text import tell
module.SLOW_S = 0.1
run_dir = Path(sys.argv[1])
console = module.open_console(run_dir, "recipe")
console.fact("model", "tiny")
print("a library prints")
os.system("echo a child prints")
os.write(2, b"C prints\\n")
"""


def run(folder, rest, **popen):
    command = [sys.executable, "-c", APP + rest, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, **popen)
    return done, (folder / LOG).read_text()


def test_only_the_consoles_own_lines_are_printed(tmp_path):
    done, log = run(tmp_path, 'console.finish(["docagent-rl view RUN"])')
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "  model     tiny",
        "0 steps in 0 s",
        "next:",
        "  docagent-rl view RUN",
    ]
    assert done.stderr == ""
    heading, *lines = log.splitlines()
    assert heading.startswith("=== ")
    assert sorted(lines) == ["C prints", "a child prints", "a library prints"]


def test_a_terminal_shows_what_goes_on_and_nothing_of_others(tmp_path):
    rest = """
console.begin("checks")
console.look("model family")
print("a library prints at the same time", flush=True)
tell("it broke")
console.close()
"""
    terminal, its_end = os.openpty()
    command = [sys.executable, "-c", APP + rest, str(tmp_path)]
    subprocess.run(command, stdout=its_end, stderr=its_end, check=True, timeout=300)
    os.set_blocking(terminal, False)
    shown = os.read(terminal, 1 << 16).decode()
    assert "checks: model family" in shown
    assert shown.count("docagent-rl: it broke") == 1
    assert "library" not in shown
    assert "at the same time" in (tmp_path / LOG).read_text()


def test_a_stage_has_its_seconds_and_a_slow_one_says_what_it_looks_at(tmp_path):
    rest = """
console.begin("checks")
console.look("model family")
time.sleep(2.5)
console.begin("Ray")
console.look("Ray")
console.ready(4, 8)
console.close()
"""
    done, _ = run(tmp_path, rest)
    _, slow, checks, ray, again = done.stdout.splitlines()
    assert slow == "  … checks: model family"
    assert checks.split()[0] == "checks"
    assert float(checks.split()[1]) >= 2.5
    assert ray.startswith("  Ray ")
    assert again == "  resumed from step 4"


def test_reports_of_the_trainer_are_shown(tmp_path):
    step = {"training/global_step": 1.0, "docagent/reward/total": 0.5}
    validation = {"val-core/demo/reward/mean@1": 0.25}
    reports = [
        {"kind": "stage", "name": "rollout servers"},
        {"kind": "warning", "text": "look out\nin detail"},
        {"kind": "ready", "step": 0, "total": 2},
        {"kind": "look", "name": "step 1"},
        {"kind": "numbers", "step": 1, "numbers": step},
        {"kind": "numbers", "step": 2, "numbers": step | validation},
    ]
    (tmp_path / "metrics").mkdir()
    earlier = {"val-core/demo/reward/mean@1": 0.75}
    (tmp_path / "metrics" / "val-0.json").write_text(json.dumps(earlier))
    rest = f"for each in {reports!r}:\n    console.handle(each)\nconsole.finish([])"
    lines = run(tmp_path, rest)[0].stdout.splitlines()[1:]
    assert lines[0] == "  warning: look out"
    assert lines[1].startswith("  rollout servers ")
    assert lines[2] == "step 1/2  reward 0.500  0 s left"
    assert lines[3] == "step 2/2  reward 0.500"
    assert lines[4].split() == ["validation", "at", "step", "2", "now", "step", "0", "change"]
    assert lines[5].split() == ["demo/reward", "0.250", "0.750", "-0.500"]
    assert lines[6] == "2 steps in 0 s; reward 0.500 at step 1, 0.500 at step 2"


def test_a_failure_is_the_last_line_with_the_logs_end_before_it(tmp_path):
    rest = 'print("\\x1b[36mthe cause\\x1b[0m")\nconsole.show_tail()\ntell("it broke")\nos._exit(1)'
    done, log = run(tmp_path, rest)
    assert done.returncode == 1
    assert done.stderr == "docagent-rl: it broke\n"
    assert "docagent-rl: it broke" in log
    *_, last = done.stdout.splitlines()
    assert last == "  | the cause"
    assert f"last lines of {tmp_path / LOG}:" in done.stdout


def test_an_end_that_nobody_speaks_of_names_the_log(tmp_path):
    done, log = run(tmp_path, "raise KeyboardInterrupt")
    assert done.stdout.splitlines()[-1] == (f"the run ended early; its log is {tmp_path / LOG}")
    assert "KeyboardInterrupt" in log
    assert "Traceback" not in done.stdout + done.stderr


def test_what_was_printed_before_a_kill_is_in_the_log_and_the_next_start_appends(tmp_path):
    done, log = run(tmp_path, f"os.kill(os.getpid(), {int(signal.SIGKILL)})")
    assert done.returncode == -signal.SIGKILL
    assert "a library prints" in log
    _, log = run(tmp_path, "console.close()")
    assert log.count("=== ") == log.count("a library prints") == 2


def test_a_reader_that_is_gone_ends_no_run(tmp_path):
    rest = 'print("ready", flush=True)\nsys.stdin.read()\nconsole.line("x")\nconsole.finish([])'
    command = [sys.executable, "-c", APP + rest, str(tmp_path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    process.stdin.close()
    process.wait(300)
    assert "BrokenPipeError" not in (tmp_path / LOG).read_text()


@pytest.mark.parametrize("step", [3, 100])
def test_the_validation_before_is_found_in_the_folder(tmp_path, step):
    assert earlier_validation(tmp_path, step) is None
    (tmp_path / "metrics").mkdir()
    for number in (0, 2, 10):
        (tmp_path / "metrics" / f"val-{number}.json").write_text(json.dumps({"a": number}))
    found = 2 if step == 3 else 10
    assert earlier_validation(tmp_path, step) == (found, {"a": found})
    (tmp_path / "metrics" / f"val-{found}.json").write_text("{")
    assert earlier_validation(tmp_path, step) is None


class TaskError(Exception):
    """An error of Ray's, with the traceback of the task in its text."""

    def __init__(self, text, cause=None):
        super().__init__(text)
        self.cause = cause


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no\nsecond line"), "ValueError: no"),
        (ValueError(), "ValueError"),
        (TaskError("x", TaskError("y", KeyError("name"))), "KeyError: 'name'"),
        (TaskError("Traceback (most recent call last):\n  f()\nOSError: full"), "OSError: full"),
        (ValueError("x " * 400), f"ValueError: {'x ' * 150}…"),
    ],
)
def test_a_failure_has_its_first_cause_in_one_line(error, text):
    shown = reason(error)
    assert shown in (text, f"{type(error).__name__}: {text}")


def test_no_lines_are_printed_in_a_program_of_another_kind(monkeypatch):
    from docagent_rl.base import first_line

    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/x/verl/trainer/main_ppo.py", False)
    assert first_line.trains()
    monkeypatch.setattr(sys.modules["__main__"], "__file__", "/x/app.py", False)
    assert not first_line.trains()
