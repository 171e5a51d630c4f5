"""Builds of an index in other processes, which report to the test where they are."""

import logging
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

from docagent_rl.documents.store import DocumentStore
from tests.retrieval.engines.killed import OWNERS, PROCESSES, build_here, use_small_parts

STEPS = {"embedded": ("_Build", "keep"), "lancedb": ("LanceCollection", "add")}
"""A call within a build of each engine, when some documents are written and others are not."""
HOLDS, WAITS = "holds", "waits"
_PATIENCE_S = 300
"""Seconds after which a process without a message counts as stuck."""


class _WaitReporter(logging.Handler):
    """A logging handler that reports to another process that this one waits."""

    def __init__(self, to: Connection) -> None:
        super().__init__(logging.WARNING)
        self._to = to

    def emit(self, record: logging.LogRecord) -> None:
        if "waiting" in record.getMessage():
            self._to.send(WAITS)


def _build(to: Connection, engine: str, store: Path, folder: Path, hold: bool) -> None:
    use_small_parts(folder)
    logging.getLogger("docagent_rl.retrieval.index_files").addHandler(_WaitReporter(to))
    if hold:
        _hold_at_second(to, *STEPS[engine])
    to.send(build_here(engine, DocumentStore(store), folder).new)


def _hold_at_second(to: Connection, owner: str, name: str) -> None:
    """Stop at the second call of a method until the other process says to continue."""
    found, calls = getattr(OWNERS[owner], name), []

    def held(*arguments):
        calls.append(arguments)
        if len(calls) == 2:
            to.send(HOLDS)
            to.recv()
        return found(*arguments)

    setattr(OWNERS[owner], name, held)


class Builder:
    """A build in another process."""

    def __init__(
        self, engine: str, store: DocumentStore, folder: Path, *, hold: bool = False
    ) -> None:
        self._here, there = PROCESSES.Pipe()
        arguments = (there, engine, store.path, folder, hold)
        self._process = PROCESSES.Process(target=_build, args=arguments, daemon=True)
        self._process.start()
        there.close()

    def says(self) -> str | int:
        """Return its next message: that it has stopped or waits, or the number of pages that it has
        encoded.
        """
        assert self._here.poll(_PATIENCE_S), "the process is stuck"
        return self._here.recv()

    def go_on(self) -> None:
        self._here.send(None)

    def kill(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()

    def ended(self) -> int | None:
        self._process.join()
        return self._process.exitcode
