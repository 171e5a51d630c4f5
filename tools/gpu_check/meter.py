"""Measure peak memory and time of a call."""

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
    """Peak memory and time of one call.

    Attributes:
        peak_mib: peak memory above what was allocated before the call: by torch's allocator on a
            GPU, by the process on a CPU. If the call marks a second phase (`Meter.mark`), this is
            the peak of the first one.
        seconds: wall-clock time.
        later_mib: the peak of the second phase, above the same memory; 0 if there is none.
    """

    peak_mib: float
    seconds: float
    later_mib: float = 0.0

    def __str__(self) -> str:
        return f"{_size(max(self.peak_mib, self.later_mib))}, {self.seconds:.2f} s"

    def as_dict(self) -> dict[str, float]:
        """Return the numbers by name, as JSON types."""
        return asdict(self)


def _size(mib: float) -> str:
    return f"{mib:.0f} MiB" if mib < 1024 else f"{mib / 1024:.1f} GiB"


class Meter:
    """Measures peak memory and time of a call, which may mark the start of a second phase."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._peaks: list[int] = []

    def mark(self) -> None:
        """End the first phase: peaks from now on belong to the second."""
        self._peaks.append(_peak(self._device))
        _held(self._device)

    def measure(self, call: Callable[[], object]) -> Cost:
        """Call twice and measure the second call, since the first one compiles."""
        call()
        _wait(self._device)
        self._peaks.clear()
        before = _held(self._device)
        began = time.perf_counter()
        call()
        _wait(self._device)
        seconds = time.perf_counter() - began
        self._peaks.append(_peak(self._device))
        first, *later = [max(0, peak - before) / 2**20 for peak in self._peaks]
        return Cost(first, seconds, max(later, default=0.0))


def measured(call: Callable[[], object], device: str) -> Cost:
    """Measure a call with a single phase on `cuda` or `cpu`."""
    return Meter(device).measure(call)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _held(device: str) -> int:
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    if CLEAR_REFS.exists():
        CLEAR_REFS.write_text("5")  # reset the high-water mark to what is resident now
    return psutil.Process().memory_info().rss


def _peak(device: str) -> int:
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    lines = CLEAR_REFS.with_name("status").read_text().splitlines() if CLEAR_REFS.exists() else []
    return 1024 * max(
        (int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), default=0
    )
