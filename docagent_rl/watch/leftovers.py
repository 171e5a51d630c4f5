"""Ends what an earlier start of the same run has left on this machine.

Ray's processes end with their driver, within a minute. A vLLM engine is the child of an actor and can
outlive it, asleep, with the memory of its accelerator. The processes of a run have the run's id in their
environment, but for Ray's own, which write their title over it; the run's folder keeps the ids of its starts.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.watch.family import end_gently

RUN_VARIABLE = "DOCAGENT_RUN_ID"
"""Environment variable of all processes of a start, those that Ray places on other nodes too."""
START_FILE = "start.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SOCKETS = Path("/tmp")
_KEPT = 32


@dataclass(frozen=True, slots=True)
class Start:
    """The newest start of a run.

    Args:
        run: its id.
        boot: id of the driver's machine since it was last booted.
        driver: process id of the driver.
        began: when the driver began, in clock ticks since the boot; a clock that is set changes nothing.
        earlier: ids of the starts before it, the newest first.
    """

    run: str
    boot: str
    driver: int
    began: str | None
    earlier: tuple[str, ...] = ()

    def is_alive(self) -> bool:
        """Return whether the driver runs; that of another machine counts as ended."""
        return self.boot == _boot() and self.began is not None and self.began == _began(self.driver)


def read_start(run_dir: Path) -> Start | None:
    """Return the newest start of a run, `None` where nothing is known of it."""
    try:
        values = json.loads((run_dir / START_FILE).read_text(encoding="utf-8"))
        values["earlier"] = tuple(values["earlier"])
        return Start(**values)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def earlier_starts(run_dir: Path) -> tuple[str, ...]:
    """Return the ids of a run's starts so far, the newest first.

    Raises:
        UserError: the driver of one of them still runs.
    """
    start = read_start(run_dir)
    if start is None:
        return ()
    if start.is_alive() and start.driver != os.getpid():
        raise UserError(
            f"docagent.run_dir={run_dir}: process {start.driver} is training there; "
            "wait for its end, end it, or give this run another folder"
        )
    return (start.run, *start.earlier)[:_KEPT]


def note_start(run_dir: Path, run: str) -> None:
    """Write down that this process starts a run.

    Args:
        run_dir: its folder.
        run: the id of this start.
    """
    me = os.getpid()
    start = Start(run, _boot(), me, _began(me), earlier_starts(run_dir))
    run_dir.mkdir(parents=True, exist_ok=True)
    atomic_write(run_dir / START_FILE, json.dumps(asdict(start)))


def end_leftovers(runs: Collection[str]) -> list[str]:
    """End the processes of starts whose drivers are gone, and remove their sockets.

    Args:
        runs: ids of the starts.

    Returns:
        Names of the processes, with their process ids.
    """
    left = [process for process in psutil.process_iter() if _run_of(process) in runs]
    names = []
    for process in left:
        with suppress(psutil.NoSuchProcess):
            names.append(f"{process.name()} ({process.pid})")
    end_gently(left)
    for run in runs:
        for socket in _SOCKETS.glob(f"rl-colocate-zmq-*-{run}.sock"):
            socket.unlink(missing_ok=True)
    return names


def _run_of(process: psutil.Process) -> str | None:
    with suppress(psutil.Error, OSError):  # of another user, or gone
        return process.environ().get(RUN_VARIABLE)
    return None


def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return ""


def _began(pid: int) -> str | None:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return None
