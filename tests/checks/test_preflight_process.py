"""The trainer's own command, which has to end at the preflight: before Ray, with one message."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from docagent_rl.checks.refusal import TRACEBACK_FILE

pytestmark = pytest.mark.slow

LIMIT_S = 200


@pytest.fixture
def train(tmp_path):
    """Run the command; its status, its standard error and the seconds it took."""

    def run(*overrides, path=None):
        command = [sys.executable, "-m", "verl.trainer.main_ppo", "--config-name", "vrag_rl_qwen2_5_vl_7b"]
        places = ["+profile=cpu", f"docagent.workspace={tmp_path / 'w'}", "docagent.auto_demo=false"]
        environment = {**os.environ, "VERL_PLATFORM": "cpu", "RAY_TMPDIR": str(tmp_path / "ray")}
        if path is not None:
            environment["PYTHONPATH"] = os.pathsep.join(
                [str(path), *filter(None, [os.environ.get("PYTHONPATH")])]
            )
        start = time.monotonic()
        done = subprocess.run(
            [*command, *places, *overrides],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=environment,
            check=False,
        )
        assert "ray init kwargs" not in done.stdout
        assert not (tmp_path / "ray").exists()
        return done.returncode, done.stderr, time.monotonic() - start

    return run


def messages(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith("docagent-rl: ")]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["data.val_files=null"], "data.val_files=null"),
        (["data.max_prompt_length=1"], "data.max_prompt_length=1"),
        (["trainer.v1.trainer_mode=docagent_asynchronous"], "docagent_asynchronous is not registered"),
    ],
)
def test_what_cannot_be_is_one_message(train, overrides, said):
    status, stderr, _ = train(*overrides)
    assert status == 2
    assert len(messages(stderr)) == 1
    assert said in stderr
    assert "Traceback" not in stderr


def test_a_check_that_fails_itself_does_not_let_the_run_start(train, tmp_path):
    """A module of the user's that breaks the checks in a way that nobody has foreseen."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "breaking.py").write_text(
        "import docagent_rl.checks.preflight as preflight\n"
        "def broken(config):\n    raise ZeroDivisionError('a page of no width')\n"
        "preflight.check_mode = broken\n"
    )
    status, stderr, _ = train("docagent.modules=[breaking]", path=tmp_path / "lib")
    assert status == 2
    (message,) = messages(stderr)
    assert "ZeroDivisionError: a page of no width" in message
    (path,) = (tmp_path / "w" / "runs").glob(f"*/{TRACEBACK_FILE}")
    assert f"traceback: {path}" in stderr
    assert "in broken" in path.read_text()
    assert "Traceback" not in stderr


def test_a_folder_that_cannot_be_written_is_one_message(train, tmp_path):
    """Hydra writes there before any other check."""
    (tmp_path / "file").touch()
    status, stderr, _ = train(f"docagent.run_dir={tmp_path}/file/run")
    assert status == 2
    (message,) = messages(stderr)
    assert f"docagent.run_dir={tmp_path}/file/run cannot be written" in message
    assert "Traceback" not in stderr
