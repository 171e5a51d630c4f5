from __future__ import annotations

import compileall
import dataclasses
import importlib
import json

import pytest

from docagent_rl.checks import doctor
from docagent_rl.checks.bytecode import check_bytecode
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"agent_loops": ["tool_agent"]}, AGENT_LOOP),
        ({"trainer_modes": list(TRAINER_MODES[1:])}, TRAINER_MODES[0]),
        ({"engines": ["value_model/fsdp2"]}, "device cpu"),
        ({"patches": {}}, "patch"),
        ({"patches": {"one": "version mismatch"}}, "patch one: version mismatch"),
        ({"patches": {"one": "waiting for import"}}, "patch one: waiting for import"),
    ],
)
def test_each_defect_is_one_problem(changes, words):
    found = find_problems(ProcessKind.RAY, Probe(dataclasses.replace(HEALTHY, **changes)))
    assert len(found) == (words is not None)
    for problem in found:
        assert words in problem.what
        assert problem.remedy
        assert problem.where == "Ray worker"


def test_process_that_fails_is_a_problem_in_its_own_words():
    def fail() -> Registered:
        raise RuntimeError("a long story\nno space left on device")

    answer = probe(fail)
    assert answer.registered is None
    (problem,) = find_problems(ProcessKind.VLLM, answer)
    assert problem.what == "RuntimeError: no space left on device"


def test_error_of_our_own_code_is_not_swallowed():
    with pytest.raises(ZeroDivisionError):
        probe(lambda: 1 // 0)


def test_report_holds_all_problems_and_is_json():
    versions = [VersionCheck("torch", "==2.11.0", "2.12.0", False), VersionCheck("ray", ">=2", "2.50", True)]
    probes = {ProcessKind.DRIVER: Probe(HEALTHY), ProcessKind.RAY: Probe(error="x")}
    machine = [
        SystemCheck("NVIDIA driver", "570", "install 580", blocks=True),
        SystemCheck("CPUs", "2", "few"),
    ]
    report = Report(versions, probes, machine)
    assert [problem.where for problem in report.problems] == ["versions", "Ray worker", "machine"]
    blocked = report.problems[-1]
    assert (blocked.what, blocked.remedy) == ("NVIDIA driver: 570", "install 580")
    told = json.loads(json.dumps(report.as_dict()))
    assert told["registrations"]["driver"]["registered"]["platform"] == "cpu"


def test_system_names_what_it_looks_at(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    checks = {check.name: check for check in check_system()}
    assert int(checks["CPUs"].value) >= 1
    assert "poppler" in checks["pdftoppm"].advice
    assert "compiled" in checks["packages"].value
    assert "mount" in doctor._shared_memory(tmp_path / "absent").advice
    assert doctor._shared_memory(tmp_path).value.endswith("GiB")


def test_packages_that_are_not_compiled_are_named_with_what_to_do(tmp_path, monkeypatch):
    (tmp_path / "gadget_of_a_test").mkdir()
    (tmp_path / "gadget_of_a_test" / "__init__.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    found = check_bytecode(["gadget_of_a_test", "no_such_package"])
    assert "gadget_of_a_test" in found.value
    assert found.advice.endswith(f"python -m compileall -qq -j 0 {tmp_path}")
    assert "PYTHONDONTWRITEBYTECODE" in found.advice
    assert not found.blocks
    assert compileall.compile_dir(tmp_path, quiet=2)
    assert check_bytecode(["gadget_of_a_test"]).value == "compiled"


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
