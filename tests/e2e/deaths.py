"""Kill the rollout's engine during a run, and record how the run ends."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.e2e.conftest import PATIENCE_S, Run, kill
from tests.processes import ends, members, title

SERVER = "vLLMHttpServer"
"""A part of the title of Ray's worker that serves."""
SPAWNED = "spawn_main"
"""In the title of the engine that it starts; warm ones have no other. Their forks are killed with
it.
"""


@dataclass(frozen=True)
class Death:
    """The end of a run whose engine was killed.

    Args:
        code: exit status of the driver.
        said: what the driver printed.
        left: processes of the run that outlived it.
        failure: what the trainer said.
    """

    code: int
    said: str
    left: tuple[str, ...]
    failure: str


@dataclass(frozen=True)
class Resumed:
    """A resumed run that has ended, and how it ended the first time."""

    run: Run
    death: Death


def die_and_resume(run: Run, condition: Callable[[], bool], python: Path) -> Resumed:
    """Kill the engine once the condition holds, start again with another interpreter and finish.

    The first one may not be a warm one: the watch ends the driver's children, and a fork of that is
    none.
    """
    death = kill_engine(run, condition)
    run.log.rename(run.folder / "first.txt")
    run.python = python
    run.finish()
    return Resumed(run, death)


def kill_engine(run: Run, condition: Callable[[], bool]) -> Death:
    """Start a run, kill its engine once the condition holds, and wait until all other processes
    have ended.
    """
    process = run.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert process.poll() is None, run.said[-6000:]
            assert time.monotonic() < deadline, run.said[-6000:]
            time.sleep(0.2)
        titles = {member.pid: title(member) for member in members(run.folder)}
        (server,) = (psutil.Process(pid) for pid, name in titles.items() if SERVER in name)
        (engine,) = (child for child in server.children() if SPAWNED in title(child))
        engine.kill()
        code = process.wait(PATIENCE_S)
    finally:
        kill(process)
    left = tuple(name for pid, name in titles.items() if not ends(pid, within=0.5))
    failure = (run.run_dir / "failure_traceback.txt").read_text()
    return Death(code, run.said, left, failure)
