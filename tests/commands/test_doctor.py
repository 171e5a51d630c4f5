from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def doctor(*arguments: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "docagent_rl.cli", "doctor", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, cwd=ROOT)


@pytest.mark.slow
def test_what_did_not_answer_is_named_and_the_rest_is_shown():
    done = doctor("--no-ray", "--no-vllm", "--timeout", "0.01")
    assert done.returncode == 1
    assert "driver: no answer within 0.01 s" in done.stderr
    assert "Versions" in done.stdout
    assert "Machine" in done.stdout
    assert "--timeout" in done.stdout


@pytest.mark.slow
def test_progress_goes_to_standard_error_alone():
    done = doctor("--no-ray", "--no-vllm", "--json")
    report = json.loads(done.stdout)
    assert report["registrations"]["driver"]["registered"]["agent_loops"]
    assert "driver: answered after" in done.stderr


@pytest.mark.parametrize("name", [".venv", "workspace", "workspace-2", "runs", "build"])
def test_links_to_what_is_ignored_are_ignored(tmp_path, name):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_bytes((ROOT / ".gitignore").read_bytes())
    (tmp_path / "elsewhere.pyc").touch()
    (tmp_path / name).symlink_to(tmp_path.parent)
    status = subprocess.run(
        ["git", "status", "--porcelain"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert status.stdout == "?? .gitignore\n"
