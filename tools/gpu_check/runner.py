"""Run each check in its own process, so that a crash or a full GPU ends only that check."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tools.gpu_check.check import Check, Machine, Outcome, Result
from tools.gpu_check.registry import TOTAL_S

ROOT = Path(__file__).parents[2]
LOG_END = 20_000
SLOW_PROCESSOR = 3
"""Factor on the time for all checks if they run on a CPU."""
DEADLINE = "GPU_CHECK_DEADLINE"
"""Environment variable of a check's process: the `time.time()` at which it is ended."""
FULL = ("CUDA out of memory", "OutOfMemoryError", "CUBLAS_STATUS_ALLOC_FAILED")
"""Texts in a log that show that the GPU's memory is full."""


def run_checks(
    checks: Iterable[Check], machine: Machine, folder: Path, limit_s: float | None = None
) -> Iterator[tuple[Check, Result]]:
    """Run checks one after the other.

    Args:
        checks: the checks.
        machine: where they run.
        folder: for their files and logs.
        limit_s: seconds for all checks together. A check may use the remaining time minus the
            limits of the checks after it; a check for which no time remains is not run.

    Yields:
        each check with its result, as soon as it has finished.
    """
    chosen = list(checks)
    slow = SLOW_PROCESSOR if machine.gpu is None else 1
    total = TOTAL_S * slow if limit_s is None else limit_s
    end = time.monotonic() + total
    for number, check in enumerate(chosen):
        lacking = machine.lacks(check)
        kept = slow * sum(
            later.limit_s for later in chosen[number + 1 :] if not machine.lacks(later)
        )
        left = end - time.monotonic()
        # if the total is less than the sum of limits, the first checks get it
        limit = min(left, max(slow * check.limit_s, left - kept))
        if lacking:
            yield check, Result(Outcome.NOT_RUN, f"needs {' and '.join(lacking)}")
        elif limit <= 0:
            yield check, Result(Outcome.NOT_RUN, f"the {total:g} s for all checks were used up")
        else:
            yield check, run_one(check, machine, folder, limit)


def run_one(
    check: Check,
    machine: Machine,
    folder: Path,
    limit_s: float,
    command: Callable[[Check, Path, Path], list[str]] | None = None,
) -> Result:
    """Run a check in a new process; end it and everything that it started when its time is up.

    Args:
        check: the check.
        machine: where it runs.
        folder: for its files and its log.
        limit_s: the most seconds that it may take.
        command: returns the command line for a check, its result file and its folder.
    """
    own = folder / check.name
    own.mkdir(parents=True, exist_ok=True)
    result = own / "result.json"
    log = own / "log.txt"
    result.unlink(missing_ok=True)
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            (command or _command)(check, result, own),
            cwd=ROOT,
            env=environment(machine, own) | {DEADLINE: str(time.time() + limit_s)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
    seconds = time.monotonic() - began
    end = log.read_text(errors="replace")[-LOG_END:]
    found = _read(result) if status == 0 else None
    if found is None:
        found = Result(Outcome.FAIL, _death(status, end, limit_s))
    kept = "" if found.outcome is not Outcome.FAIL else end
    return dataclasses.replace(found, device=machine.device, seconds=round(seconds, 1), log=kept)


def _command(check: Check, result: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "tools.gpu_check.child", check.name, str(result), str(folder)]


def environment(machine: Machine, folder: Path) -> dict[str, str]:
    """Return the environment variables of a check's process.

    They set up one rank without a network, on the machine's platform.
    """
    own = {
        "RANK": "0",
        "WORLD_SIZE": "1",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONFAULTHANDLER": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])),
        "TMPDIR": str(folder),
    }
    if machine.gpu is None:
        own |= {"VERL_PLATFORM": "cpu", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return os.environ | own


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _end(process: subprocess.Popen) -> None:
    """End the process and everything that it started, since leftovers would hold GPU memory."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(path: Path) -> Result | None:
    """Read the result that the check wrote; None if it is missing or unreadable."""
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Result(**fields | {"outcome": Outcome(fields["outcome"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _death(status: int | None, end: str, limit_s: float) -> str:
    if status is None:
        return f"did not finish within {limit_s:.0f} s"
    if any(word in end for word in FULL):
        return "the GPU's memory is full"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    lines = [line for line in end.splitlines() if line.strip()]
    return lines[-1].strip() if lines else f"ended with status {status}"
