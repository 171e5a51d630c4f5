"""What an agent worker tells about its load, once a step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping

INTERVAL_S = 0.5
"""Between two looks at the event loop."""


class Gauges:
    """The largest values since they were last read.

    Names: `event_loop_lag_s`, and those that are noted.
    """

    def __init__(self) -> None:
        self._most: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, name: str, value: float) -> None:
        """Keep a value if it is the largest."""
        self._most[name] = max(value, self._most.get(name, value))

    def watch_loop(self) -> None:
        """Measure from now on how late the running event loop is."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def read(self) -> dict[str, float]:
        """The values; what follows is counted anew."""
        found, self._most = self._most, {}
        return found

    async def _watch(self) -> None:
        while True:
            due = time.monotonic() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self.note("event_loop_lag_s", time.monotonic() - due)


def step_gauges(workers: Iterable[Mapping[str, float]], directory: Mapping[str, float]) -> dict[str, float]:
    """Numbers of a step: the worst worker's lag and queues, the bytes of all.

    Args:
        workers: what each read.
        directory: of the image cache that they share.
    """
    found: dict[str, float] = {}
    for worker in workers:
        for name, value in worker.items():
            known = found.get(name)
            if known is None:
                found[name] = value
            else:
                found[name] = known + value if name.endswith("_bytes") else max(known, value)
    return {f"docagent/workers/{name}": value for name, value in {**found, **directory}.items()}
