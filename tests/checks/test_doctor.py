import dataclasses
import importlib
import importlib.metadata
import subprocess
import sys
import time
from pathlib import Path

import pytest

from docagent_rl.checks.doctor import (
    Probe,
    answer_or_failure,
    ask_process,
    check_plugin,
    check_process,
    check_versions,
)
from docagent_rl.patches import ALL_PATCHES
from docagent_rl.training.patching import ProcessKind
from docagent_rl.training.registrations import AGENT_LOOP, Registered, needed_patches
from docagent_rl.training.settings.ledger import TRAINER_MODES
from tests.processes import ends

HEALTHY = Registered(
    platform="cpu",
    platforms=["cpu", "nvidia"],
    agent_loops=[AGENT_LOOP],
    trainer_modes=list(TRAINER_MODES),
    estimators=["gae"],
    policy_losses=["vanilla"],
    engines=["language_model/fsdp2", "value_model/fsdp2"],
    needed=needed_patches(),
    patches={patch.name: "applied" for patch in ALL_PATCHES} | {"gloo_process_group": "not needed"},
)


def of_patches(**changes: str | None) -> dict[str, str]:
    """Return the states of patches with these changes; None removes a patch."""
    return {name: state for name, state in (HEALTHY.patches | changes).items() if state is not None}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"agent_loops": ["tool_agent"]}, AGENT_LOOP),
        ({"trainer_modes": list(TRAINER_MODES[1:])}, TRAINER_MODES[0]),
        ({"engines": ["value_model/fsdp2"]}, "device cpu"),
        ({"patches": {}}, "patch"),
        (
            {"patches": of_patches(byte_patches="version mismatch")},
            "patch byte_patches: version mismatch",
        ),
        (
            {"patches": of_patches(byte_patches="waiting for import")},
            "patch byte_patches: waiting for import",
        ),
        (
            {"patches": of_patches(byte_patches=None)},
            "patch byte_patches: not installed; without it images",
        ),
        ({"patches": of_patches(vllm_cpu_experts=None)}, None),  # has to hold elsewhere
    ],
)
def test_each_defect_is_one_problem(changes, words):
    found = check_process(ProcessKind.RAY, Probe(dataclasses.replace(HEALTHY, **changes)))
    assert {each.where for each in found} == {"Ray worker"}
    problems = [each for each in found if each.blocks]
    assert len(problems) == (words is not None)
    assert all(words in f"{each.name}: {each.value}" and each.advice for each in problems)


def test_a_patch_that_the_core_of_an_engine_lacks_is_a_problem_there():
    core = {"message_queue_memory": "applied", "vllm_released_experts": "applied"}
    for patches, names in (
        (core, []),
        ({"vllm_released_experts": "applied"}, ["patch message_queue_memory"]),
    ):
        found = check_process(
            ProcessKind.VLLM, Probe(dataclasses.replace(HEALTHY, core_patches=patches))
        )
        assert [each.where for each in found if each.name == "patches"] == [
            "vLLM worker",
            "vLLM engine core",
        ]
        problems = [each for each in found if each.blocks]
        assert [each.name for each in problems] == names
        assert {each.where for each in problems} <= {"vLLM engine core"}


def test_process_that_fails_is_a_problem_in_its_own_words():
    def fail() -> Registered:
        raise RuntimeError("a long story\nno space left on device")

    (problem,) = check_process(ProcessKind.VLLM, answer_or_failure(fail))
    assert (problem.value, problem.blocks) == ("RuntimeError: no space left on device", True)
    with pytest.raises(ZeroDivisionError):  # an error of our own code is not swallowed
        answer_or_failure(lambda: 1 // 0)


VLLM, TORCH = "vllm==0.24.0", "torch==2.11.0"


@pytest.mark.parametrize(
    ("requirement", "installed", "found", "matches"),
    [
        (TORCH, {"torch": "2.11.0+cpu"}, "2.11.0+cpu", True),
        (TORCH, {}, None, False),
        # another distribution of the same package counts
        (VLLM, {"vllm-cpu": "0.24.0"}, "0.24.0", True),
        (VLLM, {"vllm-cpu": "0.24.0", "vllm": "0.23.0"}, "0.23.0", False),
    ],
)
def test_what_is_installed_is_held_against_what_is_supported(
    monkeypatch, requirement, installed, found, matches
):
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    with monkeypatch.context() as patched:
        patched.setattr(importlib.metadata, "version", version)
        (check,) = check_versions((requirement,))
    assert (check.value, check.blocks) == (found or "missing", not matches)
    assert check.advice == ("" if matches else f"pip install '{requirement}'")


def test_this_environment_is_supported():
    assert [check for check in check_versions() if check.blocks] == []


LATE_S = 77.0
HANGING = """
import os, subprocess, sys, time
sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleeper, start_new_session=True)
os.symlink(str(child.pid), {pid!r})
time.sleep(600)
"""


def test_a_process_that_hangs_is_ended_with_all_it_started(tmp_path, monkeypatch):
    pid, wait = tmp_path / "pid", subprocess.Popen.wait

    def late(process, timeout=None):
        """Time out as soon as the process has started another one."""
        if timeout != LATE_S:
            return wait(process, timeout)
        while not pid.is_symlink() and process.poll() is None:
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", late)
    answer = ask_process([sys.executable, "-c", HANGING.format(pid=str(pid))], LATE_S)
    assert answer.registered is None
    assert "77 s" in answer.error
    assert "--timeout" in answer.remedy
    assert ends(int(pid.readlink().name))


def test_a_process_that_dies_says_where_its_log_is():
    answer = ask_process([sys.executable, "-c", "import sys; print('oops'); sys.exit(7)"], 60)
    assert "7" in answer.error
    assert Path(answer.error.split("log: ")[1].rstrip(")")).read_text() == "oops\n"


def test_a_patch_that_does_not_fit_the_installed_version_is_named(monkeypatch):
    changed = [dataclasses.replace(ALL_PATCHES[0], versions="==0.0.1"), *ALL_PATCHES[1:]]
    monkeypatch.setattr("docagent_rl.patches.ALL_PATCHES", changed)
    problems = [each for each in check_plugin() if each.blocks]
    assert [each.name for each in problems] == [f"patch {ALL_PATCHES[0].name}"]
    assert "written for" in problems[0].value
    assert "install" in problems[0].advice
