import json

import pytest

from docagent_rl.checks.doctor import Probe, check_process
from docagent_rl.commands import doctor
from docagent_rl.commands.doctor_process import examine
from docagent_rl.training.patching import ProcessKind
from tests.checks.test_doctor import HEALTHY
from tests.commands.conftest import called


@pytest.fixture
def examined(monkeypatch):
    """The command, with these answers by the kind of a process, or the real ones."""
    monkeypatch.setattr(doctor, "prepare_environment", lambda: None)

    def run(*options, status=0, **answers):
        if answers:
            monkeypatch.setattr(doctor, "examine", lambda kind, *_: answers[kind.name])
        return called(doctor.doctor_command, *options, status=status)

    return run


def test_what_did_not_answer_is_named_and_the_rest_is_shown(examined):
    late = Probe(error="no answer within 7 s", remedy="--timeout")
    done = examined("--no-vllm", "--timeout", "7", status=1, DRIVER=Probe(HEALTHY), RAY=late)
    assert "no answer within 7 s" in done.stderr
    for part in ("versions", "machine", "--timeout", *HEALTHY.agent_loops):
        assert part in done.stdout


@pytest.mark.slow
@pytest.mark.usefixtures("warm_processes")
def test_the_driver_answers_and_progress_goes_to_standard_error_alone(examined):
    done = examined("--no-ray", "--no-vllm", "--json", status=None)  # as the machine is
    driver = {each["name"]: each for each in json.loads(done.stdout) if each["where"] == "driver"}
    assert HEALTHY.agent_loops[0] in driver["agent loops"]["value"]
    assert not any(each["blocks"] for each in driver.values())
    assert "driver: " in done.stderr


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
