"""The processes that a driver has started, and those that earlier starts of its run left behind.

Ray's processes end within a minute of their driver. A vLLM engine is the child of an actor and can
outlive it, asleep but holding the accelerator's memory. Every process of a start has the start's id
in its environment, except Ray's own, whose process titles overwrite it. The run's folder lists the
ids of its starts.
"""

import json
import os
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write

_GENTLE_S = 3.0
_TRACKER = "multiprocessing.resource_tracker"
"""A process that frees the shared memory of processes that are gone, hundreds of megabytes for a
vLLM engine, and then exits.
"""


class Descendants:
    """The descendants of this process that start after this object, remembered beyond their
    parents.

    vLLM's engine survives its server if that is killed, and becomes a child of process 1.
    """

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._before = set(self._me.children(recursive=True))
        self._seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Remember the descendants that exist now."""
        self._seen |= set(self._me.children(recursive=True)) - self._before
        self._seen = {process for process in self._seen if process.is_running()}

    def end(self) -> None:
        """End the remembered descendants that still run."""
        self.look()
        end_gently(self._seen)


def end_gently(processes: Iterable[psutil.Process]) -> None:
    """Terminate processes, then kill those that remain; resource trackers come last."""
    left = []
    trackers = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if _is_resource_tracker(process):
                trackers.append(process)
            else:
                left.append(process)
    for signal in (psutil.Process.terminate, psutil.Process.kill):
        for process in left:
            _send(signal, process)
        _, left = psutil.wait_procs(left, timeout=_GENTLE_S)
    _, trackers = psutil.wait_procs(trackers, timeout=_GENTLE_S)
    for process in trackers:
        _send(psutil.Process.kill, process)


def _is_resource_tracker(process: psutil.Process) -> bool:
    try:
        return any(_TRACKER in word for word in process.cmdline())
    except psutil.Error:
        return False


def _send(signal: Callable[[psutil.Process], None], process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        signal(process)


RUN_VARIABLE = "DOCAGENT_RUN_ID"
"""Environment variable of all processes of a start, including those on other nodes."""
START_FILE = "start.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SOCKETS = Path("/tmp")
_MEMORY = Path("/dev/shm")
_KEPT = 32


@dataclass(frozen=True, slots=True)
class Start:
    """The latest start of a run, with the ids of the earlier ones, the latest first.

    `boot` is the boot id of the driver's machine, `driver` the driver's process id, and `began` its
    start time in clock ticks since the boot, which does not depend on the system clock.
    """

    run: str
    boot: str
    driver: int
    began: str | None
    earlier: tuple[str, ...] = ()

    def is_alive(self) -> bool:
        """Return whether the driver is running; one on another machine counts as ended."""
        return self.boot == _boot() and self.began is not None and self.began == _began(self.driver)


def read_start(run_dir: Path) -> Start | None:
    """Return the latest start of a run; `None` if no start is recorded."""
    try:
        values = json.loads((run_dir / START_FILE).read_text(encoding="utf-8"))
        values["earlier"] = tuple(values["earlier"])
        return Start(**values)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def earlier_starts(run_dir: Path) -> tuple[str, ...]:
    """Return the ids of a run's starts so far, the latest first.

    Raises:
        UserError: the driver of the latest one is still running.
    """
    start = read_start(run_dir)
    if start is None:
        return ()
    if start.is_alive() and start.driver != os.getpid():
        raise UserError(
            f"docagent.run_dir={run_dir}: process {start.driver} is training in this folder; "
            "wait until it ends, stop it, or give this run another folder"
        )
    return (start.run, *start.earlier)[:_KEPT]


def note_start(run_dir: Path, run: str) -> None:
    """Record in the run's folder that this process starts it; `run` is the id of this start."""
    me = os.getpid()
    start = Start(run, _boot(), me, _began(me), earlier_starts(run_dir))
    run_dir.mkdir(parents=True, exist_ok=True)
    atomic_write(run_dir / START_FILE, json.dumps(asdict(start)))


def end_leftovers(runs: Collection[str]) -> list[str]:
    """End the processes of starts whose drivers are gone, and return the processes' names.

    Their sockets, and the shared memory of weights in transfer, are removed as well.
    """
    left = []
    names = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # another user's process, or one that has ended
            if process.environ().get(RUN_VARIABLE) in runs:
                left.append(process)
                names.append(f"{process.name()} ({process.pid})")
    end_gently(left)
    for run in runs:
        for socket in _SOCKETS.glob(f"rl-colocate-zmq-*-{run}.sock"):
            socket.unlink(missing_ok=True)
        for memory in _MEMORY.glob(f"{weights_of(run)}*"):
            memory.unlink(missing_ok=True)
    return names


def weights_of(run: str) -> str:
    """Return the prefix of the names of the shared memory that transfers a start's weights."""
    return f"verl_weights_{run}_"


def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return ""


def _began(pid: int) -> str | None:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return None
