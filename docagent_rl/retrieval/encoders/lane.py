"""Where a model computes: a device, and a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from docagent_rl.base.errors import UserError

if TYPE_CHECKING:
    import torch

T = TypeVar("T")

CPU = "cpu"
_KEY = "docagent.retriever.encoder.device"


class Lane:
    """Runs a model's work, one piece after the other, whatever thread asks for it.

    torch's number of threads is the process's. It is `threads` while a lane works and what it was when none
    does, so that a process which only now and then encodes keeps its own.

    Args:
        device: of torch; None: the CPU.
        threads: of torch on the CPU.

    Raises:
        UserError: there is no such device.
    """

    _lock = threading.Lock()
    _working = 0
    _before = 0

    def __init__(self, device: str | None = None, threads: int | None = None) -> None:
        self.device = find_device(device)
        self._threads = threads or 1
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="encoder")

    def __call__(self, work: Callable[[], T]) -> T:
        """Return the result of the work, or raise its exception."""
        return self._executor.submit(lambda: self._run(work)).result()

    def _run(self, work: Callable[[], T]) -> T:
        import torch

        with self._few_threads(), torch.inference_mode():
            return work()

    @contextmanager
    def _few_threads(self) -> Generator[None]:
        import torch

        if self.device.type != CPU:
            yield
            return
        with Lane._lock:
            if Lane._working == 0:
                Lane._before = torch.get_num_threads()
            Lane._working += 1
            torch.set_num_threads(self._threads)
        try:
            yield
        finally:
            with Lane._lock:
                Lane._working -= 1
                if Lane._working == 0:
                    torch.set_num_threads(Lane._before)


def find_device(name: str | None) -> torch.device:
    """Return a device that is there.

    Args:
        name: of torch; None: `cpu`.

    Raises:
        UserError: torch knows no such device, or this machine has none.
    """
    import torch

    try:
        device = torch.device(name or CPU)
    except RuntimeError as error:
        raise UserError(f"{_KEY}={name}: torch knows no such device; cpu, cuda or cuda:0") from error
    if device.type not in (CPU, "cuda"):
        raise UserError(f"{_KEY}={name}: cpu, cuda or cuda:0 are supported")
    if device.type == "cuda":
        there = torch.cuda.device_count()
        if (device.index or 0) >= there:
            host = socket.gethostname()
            raise UserError(
                f"{_KEY}={name}: this process on {host} sees {there} GPUs; set another one, or cpu"
            )
    return device
