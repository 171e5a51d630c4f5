"""Check and end processes that tests started."""

import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil


def ended(pid: int) -> bool:
    """Return whether a process has ended: it is gone, or a zombie that its parent never collected.

    An orphan belongs to process 1, which in a container may be a program that collects nothing.
    """
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def title(process: psutil.Process) -> str:
    """Return the command line of a process, empty if it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:  # a zombie too
        return ""


def ends(pid: int, within: float = 20) -> bool:
    """Wait up to `within` seconds for a process to end; return whether it did."""
    deadline = time.monotonic() + within
    while not ended(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def members(folder: Path) -> Iterator[psutil.Process]:
    """Yield the processes of the run that was started in a folder, including forks of a warm
    interpreter.
    """
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.cwd() == str(folder):
                yield process


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill processes, except those that are already gone."""
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.kill()
