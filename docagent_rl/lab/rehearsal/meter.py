"""The memory of a run's processes by their part in it, and what went over the loopback device."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

INTERVAL_S = 3.0
_SHARED = Path("/dev/shm")
_LOOPBACK = "lo"


class ProcessPart(StrEnum):
    """The parts of a run."""

    DRIVER = "driver"
    TRAINER = "trainer"
    RANK = "trainer's ranks"
    AGENTS = "agent workers"
    SERVER = "rollout servers"
    QUEUE = "queue of rows"
    RAY = "Ray"
    OTHER = "others"
    SHARED = "shared memory"
    """Objects of Ray, such as rows and images, and weights in transfer."""


_NAMES: Mapping[str, ProcessPart] = {
    "TaskRunner": ProcessPart.TRAINER,
    "WorkerDict": ProcessPart.RANK,
    "AgentLoopWorker": ProcessPart.AGENTS,
    "vLLMHttpServer": ProcessPart.SERVER,
    "EngineCore": ProcessPart.SERVER,
    "StorageUnit": ProcessPart.QUEUE,
    "TransferQueueController": ProcessPart.QUEUE,
    "raylet": ProcessPart.RAY,
    "gcs_server": ProcessPart.RAY,
    "ray::": ProcessPart.OTHER,
    "/ray/": ProcessPart.RAY,
}
"""Parts by a text of the command line, the more particular ones first."""


def part_of(command: str) -> ProcessPart:
    """Return the part of a process, which is not the driver's, by its command line."""
    return next((part for name, part in _NAMES.items() if name in command), ProcessPart.OTHER)


@dataclass(slots=True)
class PartMemory:
    """The most memory of the processes of a part.

    Attributes:
        processes: the most processes at one time.
        together: the most bytes of all of them at one time, without what they share.
        largest: the most bytes of a single one.
    """

    processes: int = 0
    together: int = 0
    largest: int = 0

    def add(self, sizes: list[int]) -> None:
        """Take the bytes of all processes at one time into account."""
        self.processes = max(self.processes, len(sizes))
        self.together = max(self.together, sum(sizes))
        self.largest = max(self.largest, max(sizes, default=0))


@dataclass(slots=True)
class MemoryMeter:
    """Looks at the descendants of a process every few seconds, in a thread, until it is closed.

    Args:
        pid: the driver of the run.
    """

    pid: int
    parts: dict[ProcessPart, PartMemory] = field(default_factory=lambda: defaultdict(PartMemory))
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _shared: int = 0
    _sent: int = 0

    def __enter__(self) -> MemoryMeter:
        self._shared = _shared_bytes()
        self._sent = _loopback_bytes()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def loopback_bytes(self) -> int:
        """The bytes that all processes of the machine sent to each other since the beginning."""
        return _loopback_bytes() - self._sent

    def look(self) -> None:
        """Take the memory of this moment into account."""
        sizes: dict[ProcessPart, list[int]] = defaultdict(list)
        with suppress(psutil.Error):
            driver = psutil.Process(self.pid)
            for process in (driver, *driver.children(recursive=True)):
                with suppress(psutil.Error):
                    is_driver = process.pid == self.pid
                    command = " ".join(process.cmdline())
                    part = ProcessPart.DRIVER if is_driver else part_of(command)
                    memory = process.memory_info()
                    # psutil's exact number walks through all pages of the process, which is slow
                    sizes[part].append(max(0, memory.rss - getattr(memory, "shared", 0)))
        sizes[ProcessPart.SHARED] = [max(0, _shared_bytes() - self._shared)]
        for part, found in sizes.items():
            self.parts[part].add(found)

    def _watch(self) -> None:
        while not self._end.wait(INTERVAL_S):
            self.look()


def _shared_bytes() -> int:
    return shutil.disk_usage(_SHARED).used if _SHARED.is_dir() else 0


def _loopback_bytes() -> int:
    counters = psutil.net_io_counters(pernic=True).get(_LOOPBACK)
    return 0 if counters is None else counters.bytes_sent
