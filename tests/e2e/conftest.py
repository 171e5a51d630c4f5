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
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from docagent_rl.testing.warm import WarmPython

RECIPE = "vrag_rl_qwen2_5_vl_7b"
HERE = Path(__file__).parent
AT_A_TIME = 2
MAKING = Lock()


@dataclass
class Run:
    """One start of the trainer in a folder of its own."""

    folder: Path
    workspace: Path
    overrides: tuple[str, ...]
    python: Path
    """The interpreter; a warm one saves its imports."""
    python_path: Path = HERE
    recipe: str = RECIPE

    @property
    def run_dir(self) -> Path:
        return self.folder / "run"

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    def start(self) -> subprocess.Popen:
        command = [
            *(self.python, "-m", "verl.trainer.main_ppo", "--config-name", self.recipe, "+profile=cpu"),
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
    """Runs of the trainer, a few at a time: each holds some gigabytes of memory."""

    def __init__(self, at_a_time: int):
        self._pool = ThreadPoolExecutor(at_a_time)
        self._futures: dict[str, Future[Any]] = {}

    def start(self, name: str, play: Callable[[], Any]) -> None:
        self._futures[name] = self._pool.submit(play)

    def result(self, name: str) -> Any:
        return self._futures[name].result()

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


def wanted(session: pytest.Session) -> set[str]:
    """The modules of this folder that tests were chosen from."""
    return {Path(item.path).stem for item in session.items if Path(item.path).parent == HERE}


@pytest.fixture(scope="session")
def warm_python() -> Iterator[Path]:
    """An interpreter with the imports of a run done."""
    with WarmPython() as warm:
        yield warm.executable


@pytest.fixture(scope="session")
def runs(request, tmp_path_factory, workspace, warm_python) -> Iterator[Background]:
    """The runs of all chosen tests, begun at the first test that needs one."""
    from tests.e2e import critic, custom, grpo, learning, recipes

    modules, background = wanted(request.session), Background(AT_A_TIME)
    folder = tmp_path_factory.mktemp
    python = warm_python
    with critic.judge(workspace) as url:
        if "test_grpo_run" in modules:
            background.start("grpo", lambda: grpo.play(folder("grpo"), workspace, python))
        if "test_learning_run" in modules:
            background.start("learning", lambda: learning.play(folder("learning"), python))
        if "test_critic_run" in modules:
            background.start("critic", lambda: critic.play(folder("critic"), workspace, python, url))
        if "test_custom_run" in modules:
            for name in custom.EXAMPLES:
                background.start(name, partial(custom.play, name, folder(name), workspace, python))
        if "test_recipe_runs" in modules:
            for name in recipes.chosen(request.session):
                background.start(name, partial(recipes.play, name, folder(name), workspace, python))
        yield background
        background.stop()


@pytest.fixture(scope="session")
def workspace(tmp_path_factory) -> Path:
    """A demo workspace without the real PDFs; models of other systems are added when they are needed."""
    path = tmp_path_factory.mktemp("e2e") / "workspace"
    add_model(path, "vrag_rl")
    return path


def add_model(workspace: Path, system: str) -> None:
    """Make a workspace, or add a system's tiny model to it."""
    command = [sys.executable, "-c", "from docagent_rl.cli import main; main()"]
    with MAKING:
        subprocess.run([*command, "demo", "--workspace", str(workspace), "--system", system], check=True)
