"""A pool of processes that run tasks under limits of time and memory, and may be killed."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing import Pipe, connection
from pathlib import Path
from typing import Generic, TypeVar, cast

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents.settings import DocumentError, IngestLimits, RetryableDocumentError

T = TypeVar("T")
R = TypeVar("R")

_GIB = 1 << 30
_START = (
    "import sys; sys.path[:] = {path!r}; "
    "from {module} import serve_tasks; serve_tasks({handle}, {memory!r})"
)
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""A worker uses one thread. With one per core, numpy would reserve so much address space on a
machine with many cores that the memory limit of a page would be reached.
"""
_NEVER = float("inf")

_listeners: list[Callable[[str], None]] = []


def begin_part(part: str) -> None:
    """Report that a part of a task, such as `page 12`, begins, which restarts its time limit.

    Outside of workers, this does nothing.
    """
    for listener in _listeners:
        listener(part)


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    return pages * resource.getpagesize()


def serve_tasks(handle: int, memory_gib: float) -> None:
    """Run `(function, task)` pairs from the socket with descriptor `handle` until it is closed.

    Whenever a part of a task begins (`begin_part`), its name is sent as a string; at the end of the
    task, `(result, error)` is sent, where `error` is the exception or None. Tasks may take
    `memory_gib` GiB of memory.
    """
    channel = connection.Connection(handle)
    threading.Thread(target=_end_with_parent, args=(handle,), daemon=True).start()
    most = _address_space() + int(memory_gib * _GIB)
    # programs that this process starts inherit the limit; setting it fails if a lower one is set
    # already, or if the system has no such limits
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    part = ""

    def report_part(name: str) -> None:
        nonlocal part
        part = name
        channel.send(name)

    _listeners.append(report_part)
    # these errors mean that the parent has ended, perhaps without reading the last messages
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            function, task = channel.recv()
            report_part("")
            try:
                done = function(task), None
            except MemoryError:
                reason = f"{part or 'it'} takes more than {memory_gib:g} GiB of memory"
                done = None, RetryableDocumentError(reason)
            except Exception as error:  # the parent raises it
                error.add_note(traceback.format_exc())  # tracebacks cannot be pickled
                done = None, error
            channel.send(done)


def _end_with_parent(handle: int) -> None:
    poll = select.poll()
    poll.register(handle, 0)  # hang-ups are always reported
    poll.poll()
    # kill also the programs that this process started; but a fork shares the group of its parent
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class TaskOutcome(Generic[T, R]):
    """The outcome of a task: a result, or the error of a document that cannot be read."""

    task: T
    result: R | None = None
    error: DocumentError | None = None

    def value(self) -> R:
        """Return the result, or raise the `DocumentError`."""
        if self.error is not None:
            raise self.error
        return cast("R", self.result)


class WorkerPool:
    """Processes that run tasks under `limits`, started when there is work and killed at the end.

    They are not started by `multiprocessing`, so scripts need no `if __name__ == "__main__":`.

    Args:
        workers: Maximum number of processes.
        limits: Limits for each part of a task (`begin_part`).
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

    def run(
        self, function: Callable[[T], R], tasks: Iterable[T]
    ) -> Generator[TaskOutcome[T, R], None, None]:
        """Run `function` on every task and yield the outcomes in the order in which they finish.

        `tasks` is consumed lazily. If a task takes too long or too much memory, its process is
        killed and its outcome is an error, as it is if the process dies by itself (by a crash in
        native code or the kernel's out-of-memory killer). Closing the generator, or any exception,
        kills running tasks.

        Raises:
            Exception: Whatever `function` raises, other than `DocumentError`.
            InfrastructureError: No process can be started.
        """
        waiting = iter(tasks)
        busy: list[_Worker] = []
        try:
            while True:
                while len(busy) < self._size:
                    task = next(waiting, None)
                    if task is None:
                        break
                    busy.append(self._idle.pop() if self._idle else _Worker(self._limits))
                    busy[-1].begin(function, task)
                if not busy:
                    return
                for worker in _ready(busy):
                    if (outcome := worker.advance()) is None:
                        continue
                    busy.remove(worker)
                    if worker.alive:
                        self._idle.append(worker)
                    yield outcome
        finally:
            for worker in busy:
                worker.kill()


class _Worker:
    """A process and the task that it runs."""

    def __init__(self, limits: IngestLimits) -> None:
        self._limits = limits
        self.alive = True
        self._started = False
        self.channel, theirs = Pipe()
        code = _START.format(
            path=sys.path, module=__name__, handle=theirs.fileno(), memory=limits.memory_gib
        )
        # in its own session, so that only the parent handles Ctrl-C, and the programs that the
        # process starts can be killed with it
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env={**os.environ, **_ONE_THREAD},
            )
        except OSError as error:
            raise InfrastructureError(
                f"no process for reading documents can be started ({error})"
            ) from error
        finally:
            theirs.close()

    def begin(self, function: Callable[[T], R], task: T) -> None:
        self.task: object = task
        self._part = ""
        # the time to start the process does not count
        self.deadline = time.monotonic() + self._limits.seconds if self._started else _NEVER
        # a dead process is noticed when its answer is read
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.channel.send((function, task))

    def advance(self) -> TaskOutcome | None:
        """Read the next message, or kill the process if there is none: its time is over.

        Returns:
            The outcome of the task, or None if it is still running.
        """
        if not self.channel.poll():
            self.kill()
            return self._bad(f"{self._part or 'it'} took more than {self._limits.seconds:g} s")
        try:
            message = self.channel.recv()
        except (EOFError, OSError):
            return self._died()
        if isinstance(message, tuple):
            result, error = message
            if error is not None and not isinstance(error, DocumentError):
                raise error
            return TaskOutcome(self.task, result, error)
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

    def _died(self) -> TaskOutcome:
        self.kill()
        if not self._started:
            status = self._process.returncode
            raise InfrastructureError(
                f"the process that reads documents did not start (status {status})"
            )
        # it is impossible to tell which of the two it was
        return self._bad(
            f"{self._part or 'it'}: the process that read it was killed "
            f"(a crash of the renderer, or more than {self._limits.memory_gib:g} GiB of memory)"
        )

    def _bad(self, reason: str) -> TaskOutcome:
        return TaskOutcome(self.task, error=RetryableDocumentError(reason))


def _ready(busy: list[_Worker]) -> list[_Worker]:
    """Wait for workers that have sent something, or else return those whose time is over."""
    first = min(worker.deadline for worker in busy)
    timeout = None if first == _NEVER else max(0.0, first - time.monotonic())
    channels = connection.wait([worker.channel for worker in busy], timeout)
    if channels:
        return [worker for worker in busy if worker.channel in channels]
    now = time.monotonic()
    return [worker for worker in busy if worker.deadline <= now]
