"""The processes that a driver has started, also those whose parents have died since."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

import psutil

_GENTLE_S = 3.0
_TRACKER = "multiprocessing.resource_tracker"
"""Removes the shared memory of processes that are gone, hundreds of megabytes of a vLLM engine, and ends."""


class Family:
    """Descendants of this process, remembered while they can still be told.

    vLLM's engine survives a server that is killed, and then belongs to process 1.

    Those that are there when it is made are left alone.
    """

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._before = set(self._descendants())
        self._seen: set[psutil.Process] = set()

    def look(self) -> None:
        """Remember those there are now."""
        self._seen |= set(self._descendants()) - self._before
        self._seen = {process for process in self._seen if process.is_running()}

    def end(self) -> None:
        """End those that still run."""
        self.look()
        end_gently(self._seen)

    def _descendants(self) -> list[psutil.Process]:
        return self._me.children(recursive=True)


def end_gently(processes: Iterable[psutil.Process]) -> None:
    """End processes, at once where a request is not heard; who tidies up after the others comes last."""
    running = [process for process in processes if _runs(process)]
    trackers = [process for process in running if _tracks(process)]
    left = [process for process in running if process not in trackers]
    for signal in (psutil.Process.terminate, psutil.Process.kill):
        for process in left:
            _send(signal, process)
        _, left = psutil.wait_procs(left, timeout=_GENTLE_S)
    _, trackers = psutil.wait_procs(trackers, timeout=_GENTLE_S)
    for process in trackers:
        _send(psutil.Process.kill, process)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _tracks(process: psutil.Process) -> bool:
    try:
        return any(_TRACKER in word for word in process.cmdline())
    except psutil.Error:
        return False


def _send(signal: Callable[[psutil.Process], None], process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        signal(process)
