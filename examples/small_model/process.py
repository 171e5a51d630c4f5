"""Run commands as child processes, and end them with everything that they started."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from docagent_rl.base.errors import InfrastructureError, UserError
from small_model.plan import HERE, ROOT, Step

GRACE_S = 60.0
"""Seconds that a command has to exit after it was interrupted."""
TIDY_S = 5.0
"""Seconds that the processes which it started may outlive it before they are killed."""
POLL_S = 0.1
"""Seconds between looks at whether they have exited."""


def environment(root: Path) -> dict[str, str]:
    """Return the environment variables that every command gets in addition to the current ones."""
    inherited = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    others = [entry for entry in inherited if Path(entry).absolute() != HERE.parent]
    return {
        "DOCAGENT_WORKSPACE": str(root),
        "PYTHONPATH": os.pathsep.join([str(HERE.parent), *others]),
    }


def shown(step: Step, variables: Mapping[str, str]) -> str:
    """Return the command line as a user would type it in the root of the repository."""
    line = " ".join(
        [
            *(f"{key}={shlex.quote(value)}" for key, value in variables.items()),
            shlex.join(step.words),
        ]
    )
    return line if step.minutes is None else f"timeout --signal INT {step.minutes:g}m env {line}"


def run(step: Step, variables: Mapping[str, str]) -> None:
    """Run a command until it ends or its minutes are over.

    Raises:
        UserError: the command's program is not installed.
        InfrastructureError: the command failed.
    """
    program = _program(step.words[0])
    process = subprocess.Popen(
        [*program, *step.words[1:]],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        start_new_session=True,
    )
    try:
        status = process.wait(None if step.minutes is None else 60 * step.minutes)
    except subprocess.TimeoutExpired:
        status = 0
    finally:
        _end(process)
    if status:
        raise InfrastructureError(f"command failed with status {status}: {shlex.join(step.words)}")


def _program(name: str) -> list[str]:
    if name == "python":
        return [sys.executable]
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        raise UserError(f"{name} is neither beside {sys.executable} nor on PATH: install it")
    return [found]


def _end(process: subprocess.Popen) -> None:
    """Interrupt a command that still runs, and end whatever is left of its process group."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is not None:
            break
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with suppress(ProcessLookupError):
        # Python's resource trackers outlive their process for a moment to release its shared memory
        for _ in range(round(TIDY_S / POLL_S)):
            os.killpg(process.pid, 0)
            time.sleep(POLL_S)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
