"""Peak memory and time of a call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil
import torch

CLEAR_REFS = Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Cost:
    """Of one call.

    Attributes:
        peak_mib: above what was held before: of torch's allocator on a GPU, of the process elsewhere.
        seconds: wall time.
    """

    peak_mib: float
    seconds: float

    def __str__(self) -> str:
        size = f"{self.peak_mib:.0f} MiB" if self.peak_mib < 1024 else f"{self.peak_mib / 1024:.1f} GiB"
        return f"{size}, {self.seconds:.2f} s"

    def as_dict(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def measured(call: Callable[[], object], device: str) -> Cost:
    """Call twice and measure the second: the first compiles what has to be compiled.

    Args:
        call: what is measured, with all that it does on the device.
        device: `cuda` or `cpu`.
    """
    call()
    _wait(device)
    before = _held(device)
    began = time.perf_counter()
    call()
    _wait(device)
    seconds = time.perf_counter() - began
    return Cost(max(0, _peak(device) - before) / 2**20, seconds)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _held(device: str) -> int:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")  # the high-water mark becomes what is resident now
    return psutil.Process().memory_info().rss


def _peak(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    lines = CLEAR_REFS.with_name("status").read_text().splitlines() if CLEAR_REFS.exists() else []
    return 1024 * max((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=0)
