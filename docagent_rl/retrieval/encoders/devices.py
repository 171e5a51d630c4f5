"""Torch devices, and the thread in which a model runs."""

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
    """A thread that runs a model's work for all other threads, one task after the other.

    On the CPU, torch uses `threads` threads in it, by default one.

    Raises:
        UserError: There is no such device.
    """

    def __init__(
        self, device: str | None = None, threads: int | None = None, named: str = "device"
    ) -> None:
        import torch

        self.device = find_device(device, named)
        few = partial(torch.set_num_threads, threads or 1) if self.device.type == CPU else None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="encoder", initializer=few)

    def __call__(self, work: Callable[[], T]) -> T:
        """Run the work in the thread; return its result or raise its exception."""
        import torch

        def without_gradients() -> T:
            # set in the thread itself, since the mode is per thread
            with torch.inference_mode():
                return work()

        return self._executor.submit(without_gradients).result()


def find_device(name: str | None, named: str = "device") -> torch.device:
    """Return a torch device by its name; None: the CPU. `named` is the setting, for messages.

    Raises:
        UserError: torch does not know the device, or this machine does not have it.
    """
    import torch

    try:
        device = torch.device(name or CPU)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # the latter from a torch without CUDA
        raise UserError(
            f"{named}={name}: no such device on {socket.gethostname()} "
            f"({str(error).splitlines()[0]}); set cpu, cuda or cuda:0"
        ) from error
    return device


def shared_gpu(number: int, gib: float, named: str) -> str:
    """Return one of this machine's GPUs for an actor, by the actor's number, and limit what this
    process may allocate there to `gib`. `named` is the setting, for messages.

    Raises:
        UserError: This machine has no GPU, or the GPU has less memory.
    """
    import torch

    count = torch.cuda.device_count()
    if not count:
        raise UserError(f"{named}={gib:g}: {socket.gethostname()} has no GPU that it could share")
    device = number % count
    whole = torch.cuda.get_device_properties(device).total_memory
    if gib * 2**30 > whole:
        raise UserError(f"{named}={gib:g}: a GPU of {socket.gethostname()} has {whole / 2**30:.0f}")
    torch.cuda.set_per_process_memory_fraction(gib * 2**30 / whole, device)
    return f"cuda:{device}"


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a GPU's memory; None for the CPU."""
    import torch

    if device.type != "cuda":
        return None
    torch.cuda.empty_cache()  # memory that is only cached by this process counts as free
    return torch.cuda.mem_get_info(device)[0]
