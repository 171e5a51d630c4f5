"""Runs the cases of a campaign in a process of their own, which is watched."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from itertools import islice
from pathlib import Path

import psutil

from tests.faults.campaign import Campaign, Case, find
from tests.faults.verdict import Fault, Verdict, bad
from tests.processes import title

_START_S = 600.0
_HELPERS = ("resource_tracker", "forkserver", "training/warm/server.py")
"""Processes that stay as long as the one that started them."""


def run(campaign: Campaign, cases: Iterable[Case]) -> Iterator[tuple[Case, Verdict]]:
    """Try the cases; those of a batch that ended badly as a whole are tried once more, one by one."""
    with tempfile.TemporaryDirectory(prefix=f"faults-{campaign.name}-") as folder:
        watched = _Watched(campaign, Path(folder))
        try:
            waiting = iter(cases)
            while batch := tuple(islice(waiting, campaign.batch)):
                verdicts = watched.attempt(batch)
                if not isinstance(verdicts, list):
                    again = [watched.attempt((case,)) for case in batch]
                    alone = [each[0] if isinstance(each, list) else each for each in again]
                    verdicts = alone if any(each.fault for each in alone) else [verdicts] * len(batch)
                yield from zip(batch, verdicts, strict=True)
        finally:
            watched.kill()


class _Watched:
    """The process that tries cases; started anew after one that had to be killed."""

    def __init__(self, campaign: Campaign, folder: Path) -> None:
        self._campaign = campaign
        self._folder = folder
        self._pool: ProcessPoolExecutor | None = None

    def attempt(self, cases: tuple[Case, ...]) -> list[Verdict] | Verdict:
        """The verdicts; or the one for all of them, when the process had to be killed or died."""
        if self._pool is None:
            context, told = multiprocessing.get_context("spawn"), (self._campaign.name, self._folder)
            self._pool = ProcessPoolExecutor(1, context, initializer=_prepare, initargs=told)
            self._pool.submit(time.time).result(_START_S)
        seconds = self._campaign.seconds * len(cases)
        try:
            found = self._pool.submit(_attempt, cases).result(seconds)
        except TimeoutError:
            found = bad(Fault.HANG, f"more than {seconds:g} s")
        except BrokenProcessPool as error:
            found = bad(Fault.CRASH, str(error))
        if isinstance(found, Verdict) and found.fault in (Fault.HANG, Fault.CRASH, Fault.MEMORY):
            self.kill()
        return found

    def kill(self) -> None:
        if self._pool is None:
            return
        for child in self._pool._processes.values():
            with suppress(psutil.NoSuchProcess):
                for process in [*psutil.Process(child.pid).children(recursive=True), child]:
                    process.kill()
        self._pool.shutdown()
        self._pool = None


def _prepare(name: str, folder: Path) -> None:
    """In the process: what its cases are tried with."""
    global _campaign, _prepared, _folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's
    _campaign, _folder = find(name), folder
    shutil.rmtree(folder / "inputs", ignore_errors=True)
    (folder / "inputs").mkdir()
    _prepared = _campaign.prepare(folder / "inputs")


def _attempt(cases: tuple[Case, ...]) -> list[Verdict] | Verdict:
    """Try cases in an empty folder; processes that stay, and too much memory, are bad.

    Returns:
        A verdict for each case, or one for all of them: which of them is to blame cannot be said.
    """
    shutil.rmtree(_folder / "case", ignore_errors=True)
    (_folder / "case").mkdir()
    try:
        verdicts = _campaign.attempt(_prepared, cases, _folder / "case")
    except Exception:  # of the campaign or of what it tries: in any case not expected
        return bad(Fault.RAW, traceback.format_exc())
    if left := _children_that_stay():
        return bad(Fault.LEFTOVER, f"processes: {left}")
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    most = sum(resource.getrusage(each).ru_maxrss for each in whose) / (1 << 20)
    if most > _campaign.memory_gib:
        return bad(Fault.MEMORY, f"{most:.1f} GiB, more than {_campaign.memory_gib:g}")
    return list(verdicts)


def _children_that_stay() -> list[str]:
    left: list[str] = []
    for _ in range(100):
        commands = [title(child)[:200] for child in psutil.Process().children(recursive=True)]
        left = [line for line in commands if line and not any(name in line for name in _HELPERS)]
        if not left:
            break
        time.sleep(0.1)
    return left
