"""A process that works on tasks, one after the other, and can be killed at any time."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import threading
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from docagent_rl.documents.limits import GIB, DocumentError, address_space, listen

_COLLECT_AFTER = 50_000
"""Objects more than before, until the collector looks for cycles."""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a task: its result, or what it raised."""

    result: Any = None
    error: BaseException | None = None


def serve(handle: int, memory_gib: float) -> None:
    """Work on `(function, task)` pairs from a socket until its other end is closed.

    Sends the part of the task that begins, as a string, at every beat, and `Done` at its end.

    Args:
        handle: the socket's file descriptor.
        memory_gib: memory in GiB that tasks may take.
    """
    channel = Connection(handle)
    threading.Thread(target=_end_with_parent, args=(handle,), daemon=True).start()
    _limit_memory(memory_gib)
    part = ""

    def tell(name: str) -> None:
        nonlocal part
        part = name
        channel.send(name)

    listen(tell)
    # reading makes many small objects and few cycles: to look for these after every 700 takes a 30th of it
    gc.set_threshold(_COLLECT_AFTER)
    # an error of the pipe: the parent has ended, perhaps without reading what we said
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            function, task = channel.recv()
            tell("")
            try:
                done = Done(result=function(task))
            except MemoryError:
                done = Done(
                    error=DocumentError(f"{part or 'it'} takes more than {memory_gib:g} GiB of memory")
                )
            except Exception as error:  # whatever it is: the parent raises it
                error.add_note(traceback.format_exc())  # a traceback does not travel
                done = Done(error=error)
            channel.send(done)


def _limit_memory(gib: float) -> None:
    most = address_space() + int(gib * GIB)
    # programs that this process starts inherit it
    with contextlib.suppress(ValueError, OSError):  # a lower limit is set already, or the system has none
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _end_with_parent(handle: int) -> None:
    poll = select.poll()
    poll.register(handle, 0)  # hang-ups are reported unasked
    poll.poll()
    if os.getpgrp() == os.getpid():  # a fork of a warm process is in the group of others
        os.killpg(0, signal.SIGKILL)  # with the programs that this process started
    os.kill(os.getpid(), signal.SIGKILL)
