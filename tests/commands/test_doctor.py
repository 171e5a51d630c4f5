import dataclasses
import json
import subprocess
import sys

import pytest

from docagent_rl.checks.doctor import Probe, check_process
from docagent_rl.commands import doctor
from docagent_rl.commands.doctor_process import examine
from docagent_rl.training.patching import ProcessKind
from docagent_rl.training.registrations import AGENT_LOOP
from tests.checks.test_doctor import HEALTHY
from tests.commands.conftest import called


@pytest.fixture
def examined(monkeypatch):
    """Return a function that runs the command, with given answers by kind of process or with the
    real ones.
    """
    monkeypatch.setattr(doctor, "prepare_environment", lambda: None)

    def run(*options, status=0, **answers):
        if answers:
            monkeypatch.setattr(doctor, "examine", lambda kind, *_: answers[kind.name])
        return called(doctor.doctor_command, *options, status=status)

    return run


def test_the_first_look_is_a_dozen_lines_and_starts_no_process(examined, monkeypatch):
    monkeypatch.setattr(doctor, "examine", None)
    done = examined(status=None)  # the machine is as it is
    lines = done.stdout.splitlines()
    assert len(lines) <= 14
    assert "plugin: loaded with verl" in done.stdout
    assert f"patches: {len(HEALTHY.patches)} fit the installed versions" in done.stdout
    assert "docagent-rl doctor --deep" in lines[-2]
    assert lines[-1] == "Nothing is missing."


@pytest.mark.parametrize("names", ["none", "another_plugin"])
def test_a_plugin_that_verl_does_not_load_is_missing(examined, monkeypatch, names):
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", names)
    (line,) = (line for line in examined(status=1).stdout.splitlines() if "plugin: " in line)
    assert line.startswith("fix")
    assert "not loaded with verl" in line


def test_what_did_not_answer_is_named_and_the_rest_is_shown(examined):
    late = Probe(error="no answer within 7 s", remedy="--timeout")
    done = examined(
        "--deep", "--no-vllm", "--timeout", "7", status=1, DRIVER=Probe(HEALTHY), RAY=late
    )
    (failure,) = (line for line in done.stdout.splitlines() if "no answer within 7 s" in line)
    assert failure.startswith("fix")
    for part in ("versions", "machine", "--timeout", *HEALTHY.agent_loops):
        assert part in done.stdout
    assert done.stdout.splitlines()[-1] == "Something required is missing."


def test_what_is_wrong_with_a_process_stands_on_a_line_of_its_own(examined):
    broken = dataclasses.replace(HEALTHY, agent_loops=["tool_agent"])
    answers = {"DRIVER": Probe(broken), "RAY": Probe(HEALTHY)}
    done = examined("--deep", "--no-vllm", status=1, **answers)
    (line,) = (line for line in done.stdout.splitlines() if f"agent loop {AGENT_LOOP}" in line)
    assert line.startswith("fix")
    assert "not registered" in line


@pytest.mark.slow
@pytest.mark.usefixtures("warm_processes")
def test_the_driver_answers_and_progress_goes_to_standard_error_alone(examined, monkeypatch):
    monkeypatch.setattr(doctor, "_examined", lambda vllm: [ProcessKind.DRIVER])
    done = examined("--deep", "--json", status=None)  # as the machine is
    driver = {each["name"]: each for each in json.loads(done.stdout) if each["where"] == "driver"}
    assert HEALTHY.agent_loops[0] in driver["agent loops"]["value"]
    assert not any(each["blocks"] for each in driver.values())
    assert "patches are effective" in done.stderr


@pytest.mark.slow
@pytest.mark.usefixtures("warm_processes")
def test_patches_hold_in_the_worker_and_in_the_core_of_an_engine():
    probe = examine(ProcessKind.VLLM, 600)
    found = {
        each.where: each
        for each in check_process(ProcessKind.VLLM, probe)
        if each.name == "patches"
    }
    assert "message_queue_memory: applied" in found[ProcessKind.ENGINE].value
    # the core imports no verl
    assert "byte_patches" not in found[ProcessKind.ENGINE].value
    assert "vllm_gemma4_shared_keys: applied" in found[ProcessKind.VLLM].value
    assert [each for each in check_process(ProcessKind.VLLM, probe) if each.blocks] == []


def test_the_command_itself_imports_neither_torch_nor_verl():
    code = (
        "import sys\n"
        "from docagent_rl.checks.doctor import Probe, check_process, check_versions\n"
        "from docagent_rl.commands import doctor\n"
        "from docagent_rl.training.patching import ProcessKind\n"
        "from docagent_rl.training.registrations import Registered\n"
        "check_versions()\n"
        "found = Registered('cpu', [], [], [], [], [], [], {'byte_patches': 'applied'})\n"
        "check_process(ProcessKind.DRIVER, Probe(found))\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert not {"ray", "torch", "verl", "vllm"} & set(done.stdout.split())
