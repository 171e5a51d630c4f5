from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from docagent_rl.checks.doctor import Probe
from docagent_rl.commands import doctor
from tests.checks.test_doctor import HEALTHY
from tests.commands.conftest import called

ROOT = Path(__file__).parents[2]


@pytest.fixture
def examined(monkeypatch):
    """The command, with these answers by the kind of a process, or the real ones."""
    monkeypatch.setattr(doctor, "prepare_environment", lambda: None)

    def run(*options, **answers):
        if answers:
            monkeypatch.setattr(
                doctor, "examine", lambda kinds, *_: ((kind, answers[kind.name]) for kind in kinds)
            )
        return called(doctor.doctor_command, *options)

    return run


def test_what_did_not_answer_is_named_and_the_rest_is_shown(examined):
    late = Probe(error="no answer within 7 s", remedy="--timeout")
    done = examined("--no-vllm", "--timeout", "7", DRIVER=Probe(HEALTHY), RAY=late)
    assert done.exit_code == 1
    assert "no answer within 7 s" in done.stderr
    for part in ("Versions", "Machine", "--timeout", *HEALTHY.agent_loops):
        assert part in done.stdout


@pytest.mark.slow
def test_the_driver_answers_and_progress_goes_to_standard_error_alone(examined):
    done = examined("--no-ray", "--no-vllm", "--json")
    driver = json.loads(done.stdout)["registrations"]["driver"]
    assert driver["error"] == ""
    assert HEALTHY.agent_loops[0] in driver["registered"]["agent_loops"]
    assert "driver: " in done.stderr


def test_links_to_what_is_ignored_are_ignored(tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    (tmp_path / "elsewhere.pyc").touch()
    for name in (".venv", "workspace", "workspace-2", "runs", "build"):
        (tmp_path / name).symlink_to(tmp_path.parent)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert status.stdout == "?? .gitignore\n"
