"""A process pool that outlives its workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection
from typing import Generic, TypeVar

from docagent_rl.documents.failures import DocumentError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T, R]):
    """What became of a task: a result, or the reason why its document is bad."""

    task: T
    result: R | None = None
    error: DocumentError | None = None


def run_unordered(
    function: Callable[[T], R], tasks: Iterable[T], *, workers: int
) -> Generator[Outcome[T, R], None, None]:
    """Run `function` on every task and yield the outcomes as they come.

    `tasks` is read as the work goes on, a few ahead. With one worker the work is done in this process.
    Otherwise processes are spawned (PDFium is not thread safe), and a task that kills its process (a crash
    in native code, the kernel's memory killer) is tried once more alone and then reported as bad, without
    harm to the others. Closing the generator waits for the tasks under way and drops the rest.

    Raises:
        Exception: Whatever `function` raises, other than `DocumentError`.
    """
    if workers == 1:
        return _serial(function, tasks)
    return _parallel(function, tasks, workers)


def _serial(function: Callable[[T], R], tasks: Iterable[T]) -> Generator[Outcome[T, R], None, None]:
    for task in tasks:
        try:
            outcome = Outcome(task, result=function(task))
        except DocumentError as error:
            outcome = Outcome(task, error=error)
        yield outcome


def _parallel(
    function: Callable[[T], R], tasks: Iterable[T], workers: int
) -> Generator[Outcome[T, R], None, None]:
    waiting = iter(tasks)
    while True:
        with _pool(workers) as pool:
            suspects = yield from _drain(pool, function, waiting, depth=workers + 1)
        if not suspects:
            return
        yield from _one_by_one(function, iter(suspects))


def _one_by_one(function: Callable[[T], R], suspects: Iterator[T]) -> Generator[Outcome[T, R], None, None]:
    while True:
        with _pool(1) as pool:
            # with one task under way, the one that was under way is the one that killed the process
            culprits = yield from _drain(pool, function, suspects, depth=1)
        if not culprits:
            return
        reason = "the process that read it was killed (a crash of the renderer, or out of memory)"
        yield Outcome(culprits[0], error=DocumentError(reason))


def _drain(
    pool: ProcessPoolExecutor, function: Callable[[T], R], waiting: Iterator[T], depth: int
) -> Generator[Outcome[T, R], None, list[T]]:
    """Work until nothing waits; returns the tasks that were under way when a process died, if one did."""
    running: dict[Future[R], T] = {}
    suspects: list[T] = []
    while True:
        while not suspects and len(running) < depth and (task := next(waiting, None)) is not None:
            try:
                running[pool.submit(function, task)] = task
            except BrokenProcessPool:
                suspects.append(task)
        if not running:
            return suspects
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task = running.pop(future)
            try:
                outcome = Outcome(task, result=future.result())
            except DocumentError as error:
                outcome = Outcome(task, error=error)
            except BrokenProcessPool:
                suspects.append(task)
                continue
            yield outcome


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start_worker)
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker() -> None:
    # Ctrl-C reaches the whole group: the parent decides, workers end their page range
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
