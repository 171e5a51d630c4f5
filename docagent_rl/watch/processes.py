"""The processes that a driver has started, and those that an earlier start of its run has left.

Ray's processes end with their driver, within a minute. A vLLM engine is the child of an actor and
can outlive it, asleep, with the memory of its accelerator. The processes of a run have the run's id
in their environment, but for Ray's own, which write their title over it; the run's folder keeps the
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
"""Removes the shared memory of processes that are gone, hundreds of megabytes of a vLLM engine, and
ends.
"""


class Descendants:
    """The descendants of this process that start after this object, remembered when their parents
    die.

    vLLM's engine survives a server that is killed, and then belongs to process 1.
    """

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._before = set(self._me.children(recursive=True))
        self._seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Remember those there are now."""
        self._seen |= set(self._me.children(recursive=True)) - self._before
        self._seen = {process for process in self._seen if process.is_running()}

    def end(self) -> None:
        """End those that still run."""
        self.look()
        end_gently(self._seen)


def end_gently(processes: Iterable[psutil.Process]) -> None:
    """Ask processes to end, then end them; those that tidy up after the others come last."""
    left = []
    trackers = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                (trackers if _tracks(process) else left).append(process)
    for signal in (psutil.Process.terminate, psutil.Process.kill):
        for process in left:
            _send(signal, process)
        _, left = psutil.wait_procs(left, timeout=_GENTLE_S)
    _, trackers = psutil.wait_procs(trackers, timeout=_GENTLE_S)
    for process in trackers:
        _send(psutil.Process.kill, process)


def _tracks(process: psutil.Process) -> bool:
    try:
        return any(_TRACKER in word for word in process.cmdline())
    except psutil.Error:
        return False


def _send(signal: Callable[[psutil.Process], None], process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        signal(process)


RUN_VARIABLE = "DOCAGENT_RUN_ID"
"""Environment variable of all processes of a start, those that Ray places on other nodes too."""
START_FILE = "start.json"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SOCKETS = Path("/tmp")
_MEMORY = Path("/dev/shm")
_KEPT = 32


@dataclass(frozen=True, slots=True)
class Start:
    """The newest start of a run, with the ids of those before it, the newest first.

    `boot` is the id of the driver's machine since it was last booted, `driver` its process id, and
    `began` its beginning in clock ticks since the boot; a clock that is set changes nothing.
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
    """Write down that this process starts a run; `run` is the id of this start."""
    me = os.getpid()
    start = Start(run, _boot(), me, _began(me), earlier_starts(run_dir))
    run_dir.mkdir(parents=True, exist_ok=True)
    atomic_write(run_dir / START_FILE, json.dumps(asdict(start)))


def end_leftovers(runs: Collection[str]) -> list[str]:
    """End the processes of starts whose drivers are gone, remove their sockets and the memory of
    weights on their way, and return the processes' names.
    """
    left = []
    names = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):  # of another user, or gone
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
    """Return how the names of shared memory begin in which a start's weights travel."""
    return f"verl_weights_{run}_"


def _boot() -> str:
    with suppress(OSError):
        return _BOOT.read_text().strip()
    return ""


def _began(pid: int) -> str | None:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return None
