"""Devices of torch, and the one thread of a device that a model works in."""

from __future__ import annotations

import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from docagent_rl.base.errors import UserError

if TYPE_CHECKING:
    import torch

CPU = "cpu"
T = TypeVar("T")


class ModelThread:
    """Runs a model's work, one piece after the other, for all threads, in a thread of its own.

    On the CPU that thread has `threads` of torch, by default one.

    Raises:
        UserError: there is no such device.
    """

    def __init__(
        self, device: str | None = None, threads: int | None = None, named: str = "device"
    ) -> None:
        import torch

        self.device = find_device(device, named)
        few = partial(torch.set_num_threads, threads or 1) if self.device.type == CPU else None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="encoder", initializer=few)

    def __call__(self, work: Callable[[], T]) -> T:
        """Return the result of the work, or raise its exception."""
        import torch

        def without_gradients() -> T:
            # in the thread itself: the mode belongs to the thread that sets it
            with torch.inference_mode():
                return work()

        return self._executor.submit(without_gradients).result()


def find_device(name: str | None, named: str = "device") -> torch.device:
    """Return a device of torch by its name; None: the CPU. `named` is the setting, for messages.

    Raises:
        UserError: torch knows no such device, or this machine has none.
    """
    import torch

    try:
        device = torch.device(name or CPU)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the second from a torch without CUDA
        raise UserError(
            f"{named}={name}: no such device on {socket.gethostname()} "
            f"({str(error).splitlines()[0]}); set cpu, cuda or cuda:0"
        ) from error
    return device


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that nobody holds of a GPU's memory; None for the processor."""
    import torch

    if device.type != "cuda":
        return None
    torch.cuda.empty_cache()  # what this process keeps for later is free
    return torch.cuda.mem_get_info(device)[0]
