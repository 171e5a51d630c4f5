"""Runs in which a part of the rollout is killed during the second step."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.e2e.conftest import Run, add_model, kill
from tests.e2e.custom import SHORT
from tests.processes import ends, title

VICTIMS = {"engine": "VLLM::EngineCore", "server": "ray::vLLMHttpServer"}
"""Titles of the processes."""
LIMIT_S = 240


@dataclass(frozen=True)
class Death:
    """What came of it.

    Args:
        code: exit status of the driver.
        seconds: from the signal to the end of the driver.
        said: what the driver printed.
        left: processes of the run that outlived it.
        failure: what the trainer said.
    """

    code: int
    seconds: float
    said: str
    left: tuple[str, ...]
    failure: str


def play(victim: str, folder: Path, workspace: Path) -> Death:
    """Kill it when the first step is done; the watch ends the driver's children, and a warm fork is none."""
    add_model(workspace, "vrag_rl")
    # as few places as the preflight lets pass
    overrides = (*SHORT, "trainer.total_training_steps=50", "ray_kwargs.ray_init.num_cpus=6")
    run = Run(folder, workspace, overrides, Path(sys.executable))
    return kill_part(run, victim, (run.run_dir / "metrics" / "1.json").is_file)


def kill_part(run: Run, victim: str, condition: Callable[[], bool]) -> Death:
    """Start a run, kill a part of it once the condition holds, and wait for the end of the rest."""
    process = run.start()
    try:
        deadline = time.monotonic() + 900
        while not condition():
            assert process.poll() is None, run.log.read_text(errors="replace")[-6000:]
            assert time.monotonic() < deadline, run.log.read_text(errors="replace")[-6000:]
            time.sleep(0.2)
        titles = {member.pid: title(member) for member in members(run.folder)}
        (pid,) = [pid for pid, name in titles.items() if name.startswith(VICTIMS[victim])]
        os.kill(pid, signal.SIGKILL)
        began = time.monotonic()
        code = process.wait(LIMIT_S)
        seconds = time.monotonic() - began
    finally:
        kill(process)
    left = tuple(name for pid, name in titles.items() if not ends(pid, within=0.5))
    failure = (run.run_dir / "failure_traceback.txt").read_text()
    return Death(code, seconds, run.log.read_text(errors="replace"), left, failure)


def members(folder: Path) -> Iterator[psutil.Process]:
    """The processes of the run that was started in a folder, forks of a warm interpreter too."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(folder):
                yield process
