"""Runs a campaign in a process that can be killed, and watches its time and memory."""

from __future__ import annotations

import contextlib
import multiprocessing
import shutil
import signal
import tempfile
import time
import traceback
from collections.abc import Iterable, Iterator
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from tests.faults.campaign import Campaign, Case, find
from tests.faults.verdict import Fault, Verdict, bad
from tests.processes import title

_GIB = 1 << 30
_LOOK_S = 0.2
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
        self._process: multiprocessing.Process | None = None

    def attempt(self, cases: tuple[Case, ...]) -> list[Verdict] | Verdict:
        """The verdicts; or the one for all of them, when the process had to be killed or died."""
        if self._process is None:
            self._start()
        self._channel.send(cases)
        return self._wait(self._campaign.seconds * len(cases))

    def kill(self) -> None:
        if self._process is None:
            return
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.join()
        self._channel.close()
        self._process = None

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._channel, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, self._campaign.name, self._folder))
        self._process.start()
        theirs.close()
        ready = self._wait(_START_S)
        if isinstance(ready, Verdict):
            raise RuntimeError(f"the campaign {self._campaign.name} cannot start: {ready}")

    def _wait(self, seconds: float) -> list[Verdict] | Verdict:
        deadline, most = time.monotonic() + seconds, self._campaign.memory_gib
        while not self._channel.poll(_LOOK_S):
            if time.monotonic() > deadline:
                self.kill()
                return bad(Fault.HANG, f"more than {seconds:g} s")
            if (used := sum(map(_resident, self._tree())) / _GIB) > most:
                self.kill()
                return bad(Fault.MEMORY, f"{used:.1f} GiB, more than {most:g}")
        try:
            return self._channel.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            status = self._process.exitcode
            self.kill()
            return bad(Fault.CRASH, f"status {status}")

    def _tree(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(self._process.pid)
            return [process, *process.children(recursive=True)]
        return []


def attempt_in(
    campaign: Campaign, prepared: object, cases: tuple[Case, ...], folder: Path
) -> list[Verdict] | Verdict:
    """Try cases in this process, in an empty folder; processes that stay are bad.

    Returns:
        A verdict for each case, or one for all of them: which of them is to blame cannot be said.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        verdicts = campaign.attempt(prepared, cases, folder)
    except Exception:  # of the campaign or of what it tries: in any case not expected
        return bad(Fault.RAW, traceback.format_exc())
    left = _children_that_stay()
    return bad(Fault.LEFTOVER, f"processes: {left}") if left else list(verdicts)


def _children_that_stay() -> list[str]:
    left: list[str] = []
    for _ in range(100):
        commands = [title(child)[:200] for child in psutil.Process().children(recursive=True)]
        left = [line for line in commands if line and not any(name in line for name in _HELPERS)]
        if not left:
            break
        time.sleep(0.1)
    return left


def _serve(channel: Connection, name: str, folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's
    campaign = find(name)
    inputs = folder / "inputs"
    shutil.rmtree(inputs, ignore_errors=True)
    inputs.mkdir()
    prepared = campaign.prepare(inputs)
    channel.send([])
    with contextlib.suppress(EOFError):
        while True:
            cases = channel.recv()
            channel.send(attempt_in(campaign, prepared, cases, folder / "case"))


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
