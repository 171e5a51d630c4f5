"""Runs of the real trainer: Ray, vLLM, weight updates."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

RECIPE = "vrag_rl_qwen2_5_vl_7b"
HERE = Path(__file__).parent


@dataclass
class Run:
    """One start of the trainer in a folder of its own."""

    folder: Path
    workspace: Path
    overrides: tuple[str, ...]
    python_path: Path = HERE

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def start(self) -> subprocess.Popen:
        command = [
            *(sys.executable, "-m", "verl.trainer.main_ppo", "--config-name", RECIPE, "+profile=cpu"),
            f"docagent.workspace={self.workspace}",
            f"docagent.run_dir={self.run_dir}",
            *self.overrides,
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.python_path), "HYDRA_FULL_ERROR": "1"}
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("a") as log:
            return subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def finish(self, timeout: float = 900) -> str:
        """Run to the end; the log."""
        process = self.start()
        try:
            code = process.wait(timeout)
        finally:
            kill(process)
        text = self.log.read_text(errors="replace")
        assert code == 0, f"exit status {code}; the log ends with\n{text[-6000:]}"
        return text

    def kill_when(self, condition: Callable[[], bool], timeout: float = 900) -> None:
        """Start, and kill everything with SIGKILL as soon as the condition holds."""
        process = self.start()
        deadline = time.monotonic() + timeout
        try:
            while not condition():
                assert process.poll() is None, self.log.read_text(errors="replace")[-6000:]
                assert time.monotonic() < deadline, self.log.read_text(errors="replace")[-6000:]
                time.sleep(0.2)
        finally:
            kill(process)


def kill(process: subprocess.Popen) -> None:
    """Kill the driver; Ray's processes share its fate."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    time.sleep(1)


class Background:
    """Runs of the trainer, one after the other: each holds some 10 GiB of memory."""

    def __init__(self):
        self._pool = ThreadPoolExecutor(1)
        self._futures: dict[str, Future[Run]] = {}

    def start(self, name: str, play: Callable[[], Run]) -> None:
        self._futures[name] = self._pool.submit(play)

    def result(self, name: str) -> Run:
        return self._futures[name].result()


@pytest.fixture(scope="session")
def runs(tmp_path_factory, workspace) -> Iterator[Background]:
    """All runs, begun at the first test that needs one."""
    from tests.e2e import critic, custom, grpo

    background = Background()
    with critic.judge(workspace) as url:
        background.start("grpo", lambda: grpo.play(tmp_path_factory.mktemp("grpo"), workspace))
        background.start("critic", lambda: critic.play(tmp_path_factory.mktemp("critic"), workspace, url))
        background.start("custom", lambda: custom.play(tmp_path_factory.mktemp("custom"), workspace))
        yield background


@pytest.fixture(scope="session")
def workspace(tmp_path_factory) -> Path:
    """A demo workspace without the real PDFs."""
    path = tmp_path_factory.mktemp("e2e") / "workspace"
    program = "import sys; from docagent_rl.cli import main; main()"
    subprocess.run([sys.executable, "-c", program, "demo", "--workspace", str(path)], check=True)
    return path
