from __future__ import annotations

import dataclasses
import json

import pytest

from docagent_rl.checks import doctor
from docagent_rl.checks.doctor import (
    Probe,
    ProcessKind,
    Report,
    SystemCheck,
    check_system,
    find_problems,
    probe,
)
from docagent_rl.checks.versions import VersionCheck
from docagent_rl.training.plugin import AGENT_LOOP, TRAINER_MODES
from docagent_rl.training.registrations import Registered, registered

HEALTHY = Registered(
    platform="cpu",
    platforms=["cpu", "nvidia"],
    agent_loops=[AGENT_LOOP],
    trainer_modes=list(TRAINER_MODES),
    estimators=["gae"],
    policy_losses=["vanilla"],
    engines=["language_model/fsdp2", "value_model/fsdp2"],
    patches={"one": "applied", "two": "not needed"},
)


def problems_of(**changes) -> list[str]:
    found = find_problems(ProcessKind.RAY, Probe(dataclasses.replace(HEALTHY, **changes)))
    assert all(problem.remedy and problem.where == "Ray worker" for problem in found)
    return [problem.what for problem in found]


def test_healthy_process_has_no_problem():
    assert problems_of() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"agent_loops": ["tool_agent"]}, f"agent loop {AGENT_LOOP} is not registered"),
        ({"trainer_modes": list(TRAINER_MODES[1:])}, f"trainer mode {TRAINER_MODES[0]} is not registered"),
        ({"engines": ["value_model/fsdp2"]}, "no training engine for the device cpu"),
        ({"patches": {}}, "no patch is installed"),
        ({"patches": {"one": "version mismatch"}}, "patch one: version mismatch"),
        ({"patches": {"one": "waiting for import"}}, "patch one: waiting for import"),
    ],
)
def test_each_defect_is_one_problem(changes, words):
    assert problems_of(**changes) == [words]


def test_process_that_fails_is_a_problem_in_its_own_words():
    def fail() -> Registered:
        raise RuntimeError("a long story\nno space left on device")

    answer = probe(fail)
    assert answer.registered is None
    (problem,) = find_problems(ProcessKind.VLLM, answer)
    assert problem.what == "RuntimeError: no space left on device"


def test_error_of_our_own_code_is_not_swallowed():
    def fail() -> Registered:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        probe(fail)


def test_report_holds_all_problems_and_is_json():
    versions = [VersionCheck("torch", "==2.11.0", "2.12.0", False), VersionCheck("ray", ">=2", "2.50", True)]
    report = Report(versions, {ProcessKind.DRIVER: Probe(HEALTHY), ProcessKind.RAY: Probe(error="x")}, [])
    assert [problem.where for problem in report.problems] == ["versions", "Ray worker"]
    assert (
        json.loads(json.dumps(report.as_dict()))["registrations"]["driver"]["registered"]["platform"] == "cpu"
    )


def test_property_of_the_machine_that_blocks_is_a_problem():
    checks = [
        SystemCheck("NVIDIA driver", "570", "install 580", blocks=True),
        SystemCheck("CPUs", "2", "few"),
    ]
    (problem,) = Report([], {}, checks).problems
    assert (problem.where, problem.what, problem.remedy) == ("machine", "NVIDIA driver: 570", "install 580")


def test_system_names_what_it_looks_at(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    checks = {check.name: check for check in check_system()}
    assert int(checks["CPUs"].value) >= 1
    assert checks["pdftoppm"].value == "not found"
    assert "poppler" in checks["pdftoppm"].advice


def test_small_shared_memory_is_noticed(tmp_path):
    assert "mount it" in doctor._shared_memory(tmp_path / "absent").advice
    assert doctor._shared_memory(tmp_path).value.endswith("GiB")


def test_registrations_of_this_process():
    found = registered()
    assert AGENT_LOOP in found.agent_loops
    assert set(TRAINER_MODES) <= set(found.trainer_modes)
    assert {"gae", "grpo"} <= set(found.estimators)
    assert "vanilla" in found.policy_losses
    assert found.engines == sorted(found.engines)
    assert "waiting for import" not in found.patches.values()
    if found.platform == "cpu":
        assert found.engines == ["language_model/fsdp2", "value_model/fsdp2"]
        assert set(found.patches.values()) == {"applied"}
