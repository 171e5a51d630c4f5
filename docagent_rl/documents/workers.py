"""A pool of processes that work under limits, and that outlives them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing import Pipe, connection
from typing import Generic, TypeVar, cast

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents.limits import DocumentError, IngestLimits
from docagent_rl.documents.worker_process import Done

T = TypeVar("T")
R = TypeVar("R")

_START = "import sys; sys.path[:] = {path!r}; from {module} import serve; serve({handle}, {memory!r})"
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A worker is one thread. numpy reserves address space for one a core, which on a machine of many cores would
be the memory that reading a page may take."""
_NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T, R]):
    """The outcome of a task: a result, or the reason why its document is bad."""

    task: T
    result: R | None = None
    error: DocumentError | None = None

    def value(self) -> R:
        """Return the result.

        Raises:
            DocumentError: There is none: the document is bad.
        """
        if self.error is not None:
            raise self.error
        return cast("R", self.result)


class WorkerPool:
    """Processes that work on tasks under `limits`, started when there is work and killed at the end.

    They are started apart from `multiprocessing`, so that scripts need no `if __name__ == "__main__":`.

    Args:
        workers: Number of processes at most.
        limits: What a task may take between two beats (`docagent_rl.documents.limits.beat`).
    """

    def __init__(self, workers: int, limits: IngestLimits) -> None:
        self._size = workers
        self._limits = limits
        self._idle: list[_Worker] = []

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *exception: object) -> None:
        while self._idle:
            self._idle.pop().kill()

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[Outcome[T, R], None, None]:
        """Run `function` on every task and yield the outcomes as they come.

        `tasks` is read as the work goes on. A task that takes too long or too much memory is reported as bad
        and its process killed; one whose process dies by itself (a crash in native code, the kernel's memory
        killer) is tried once more first. Closing the generator, and any exception, kills what is under way.

        Raises:
            Exception: Whatever `function` raises, other than `DocumentError`.
            InfrastructureError: No process can be started.
        """
        waiting = iter(tasks)
        again: list[T] = []
        busy: list[_Worker] = []
        try:
            while True:
                while len(busy) < self._size:
                    retried = bool(again)
                    task = again.pop() if again else next(waiting, None)
                    if task is None:
                        break
                    busy.append(self._idle.pop() if self._idle else _Worker(self._limits))
                    busy[-1].begin(function, task, retried=retried)
                if not busy:
                    return
                for worker in _ready(busy):
                    outcome = worker.advance()
                    if outcome is None and worker.alive:
                        continue
                    busy.remove(worker)
                    if worker.alive:
                        self._idle.append(worker)
                    if outcome is not None:
                        yield outcome
                    else:
                        again.append(cast("T", worker.task))
        finally:
            for worker in busy:
                worker.kill()


class _Worker:
    """A process and the task that it works on."""

    def __init__(self, limits: IngestLimits) -> None:
        self._limits = limits
        self.alive = True
        self._started = False
        self.channel, theirs = Pipe()
        code = _START.format(
            path=sys.path,
            module="docagent_rl.documents.worker_process",
            handle=theirs.fileno(),
            memory=limits.memory_gib,
        )
        # a trajectory of its own: Ctrl-C is the parent's, and programs that it starts are killed with it
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, **_ONE_THREAD},
            )
        except OSError as error:
            raise InfrastructureError(f"no process to read documents can be started ({error})") from error
        finally:
            theirs.close()

    def begin(self, function: Callable[[T], R], task: T, *, retried: bool) -> None:
        self.task: object = task
        self._retried = retried
        self._part = ""
        # the time to start up is not the task's
        self.deadline = time.monotonic() + self._limits.seconds if self._started else _NEVER
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its end is noticed as an answer is
            self.channel.send((function, task))

    def advance(self) -> Outcome | None:
        """Take the next message; the outcome, or None when there is none yet (or, if not `alive`, ever)."""
        if not self.channel.poll():
            self.kill()
            return self._bad(f"{self._part or 'it'} took more than {self._limits.seconds:g} s")
        try:
            message = self.channel.recv()
        except (EOFError, OSError):
            return self._died()
        if isinstance(message, Done):
            if message.error is not None and not isinstance(message.error, DocumentError):
                raise message.error
            return Outcome(self.task, message.result, message.error)
        self._started = True
        self._part = message
        self.deadline = time.monotonic() + self._limits.seconds
        return None

    def kill(self) -> None:
        self.alive = False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self.channel.close()

    def _died(self) -> Outcome | None:
        self.kill()
        if not self._started:
            status = self._process.returncode
            raise InfrastructureError(f"the process that reads documents did not start (status {status})")
        if not self._retried:
            return None
        return self._bad(
            f"{self._part or 'it'}: the process that read it was killed "
            f"(a crash of the renderer, or more than {self._limits.memory_gib:g} GiB of memory)"
        )

    def _bad(self, reason: str) -> Outcome:
        return Outcome(self.task, error=DocumentError(reason))


def _ready(busy: list[_Worker]) -> list[_Worker]:
    """Wait for the workers that have something to say, or are out of time."""
    first = min(worker.deadline for worker in busy)
    timeout = None if first == _NEVER else max(0.0, first - time.monotonic())
    channels = connection.wait([worker.channel for worker in busy], timeout)
    if channels:
        return [worker for worker in busy if worker.channel in channels]
    now = time.monotonic()
    return [worker for worker in busy if worker.deadline <= now]
