"""Count what a command and its processes do to files, and at the chosen event kill the command or
fill the disk.

Imported by the warm process that the commands are forks of (`tools.warm`), so that it is there
in the command and in every process that it starts. It does nothing where `VARIABLE` is not set.
"""

import errno
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

VARIABLE = "FILE_EVENTS"
KILL, FULL = "kill", "full"
"""Kinds of faults; from a full disk on nothing can be added, but files can be removed."""

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_ADDS = frozenset({"open", "os.mkdir", "os.rename", "os.link", "os.symlink", "fsync"})
_REMOVES = frozenset({"os.remove", "os.rmdir"})


@dataclass(frozen=True)
class Plan:
    """The plan for the processes of one command: `fault` happens at event `at`, counted from 1; 0
    is never.

    In the folder `state` are `count` (a byte an event), `driver` and `pids`; files below `root`
    count.
    """

    state: str
    root: str
    fault: str = KILL
    at: int = 0

    def env(self) -> dict[str, str]:
        """Return the environment variable with the plan."""
        return {VARIABLE: json.dumps(asdict(self))}


def events(state: Path) -> int:
    """Return the number of events."""
    path = state / "count"
    return path.stat().st_size if path.exists() else 0


def pids(state: Path) -> list[int]:
    """Return the processes that changed files."""
    path = state / "pids"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


class _Counter:
    """A counter of events in a process with a plan; the first process is the driver."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.pid = os.getpid()
        driver = f"{plan.state}/driver"
        try:
            handle = os.open(driver, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            os.write(handle, str(self.pid).encode())
            self._driver = self.pid
        except FileExistsError:
            handle = os.open(driver, os.O_RDONLY)
            self._driver = int(os.read(handle, 32) or 0)
        os.close(handle)
        self._append("pids", f"{self.pid}\n".encode())

    def event(self, kind: str) -> None:
        count, at = self._append("count", b"."), self.plan.at
        if not at or count < at:
            return
        if self.plan.fault == KILL:
            os.kill(self._driver, signal.SIGKILL)
            os.kill(self.pid, signal.SIGKILL)
        elif kind in _ADDS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def _append(self, name: str, data: bytes) -> int:
        handle = os.open(f"{self.plan.state}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(handle, data)
            return os.fstat(handle).st_size
        finally:
            os.close(handle)


_counter: _Counter | None = None
_inside = False


def _is_event(event: str, args: tuple[Any, ...], root: str) -> bool:
    path = args[0]
    if event == "open":
        _, mode, flags = args
        if not (set(mode) & set("wax+") if isinstance(mode, str) else (flags or 0) & _WRITES):
            return False
    elif event in ("os.rename", "os.link", "os.symlink"):
        path = args[1]
    elif args[-1] not in (-1, None) and event != "fsync":  # relative to a folder's handle
        return True
    if isinstance(path, int):
        return False
    return os.path.abspath(os.fsdecode(path)).startswith(root)  # noqa: PTH100


def _hook(event: str, args: tuple[Any, ...]) -> None:
    global _counter, _inside
    if _inside or (event not in _ADDS and event not in _REMOVES):
        return
    told = os.environ.get(VARIABLE)
    if not told:
        return
    _inside = True
    try:
        if _counter is None or _counter.pid != os.getpid():
            _counter = _Counter(Plan(**json.loads(told)))
        if _is_event(event, args, _counter.plan.root):
            _counter.event(event)
    finally:
        _inside = False


def _install() -> None:
    sys.addaudithook(_hook)
    fsync = os.fsync

    def audited(handle: int) -> None:
        sys.audit("fsync", str(Path(f"/proc/self/fd/{handle}").readlink()))
        fsync(handle)

    os.fsync = audited


_install()
